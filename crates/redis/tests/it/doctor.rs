//! Settings that would lose records are refused, risks are named.

use amends_redis::doctor::{Durability, Finding, Severity, check, functions, refuse};
use amends_redis::{Client, LIBRARIES, Options};
use amends_testbed::redis::{Cluster, Redis};

async fn look(url: &str, durability: Durability) -> Vec<Finding> {
    let client = Client::connect(url, &[], Options::default()).await.unwrap();
    check(&client, durability).await.unwrap()
}

fn of(findings: &[Finding], severity: Severity) -> Vec<&'static str> {
    let mut found: Vec<&str> = findings.iter().filter(|f| f.severity == severity).map(|f| f.what).collect();
    found.sort_unstable();
    found
}

/// The package has the fix under an old number, so this one is always there.
const SANDBOX: &str = "scripts";

#[tokio::test]
async fn a_server_that_keeps_everything_is_fine() {
    let server = Redis::start().unwrap();
    let findings = look(&server.url(), Durability::Kept).await;
    assert_eq!(of(&findings, Severity::Refuse), [""; 0]);
    assert_eq!(of(&findings, Severity::Warn), [SANDBOX]);
    refuse(&findings).unwrap();
}

#[tokio::test]
async fn each_setting_that_loses_records_is_refused_with_its_remedy() {
    let server = Redis::start().unwrap();
    let cases = [
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy"),
        ("maxmemory-policy", "volatile-ttl", "maxmemory-policy"),
        ("appendfsync", "no", "appendfsync"),
        ("appendonly", "no", "appendonly"),
    ];
    for (setting, value, what) in cases {
        let before = server.ask(&["CONFIG", "GET", setting]).unwrap();
        let before = before.lines().nth(1).unwrap();
        server.ask(&["CONFIG", "SET", setting, value]).unwrap();
        let findings = look(&server.url(), Durability::Kept).await;
        assert_eq!(of(&findings, Severity::Refuse), [what], "{setting} {value}");
        let refused = refuse(&findings).unwrap_err().to_string();
        assert!(refused.contains(&format!("set {setting} ")), "{refused}");
        server.ask(&["CONFIG", "SET", setting, before]).unwrap();
    }
    server.ask(&["CONFIG", "SET", "appendonly", "no"]).unwrap();
    let findings = look(&server.url(), Durability::Volatile).await;
    assert_eq!(of(&findings, Severity::Warn), ["appendonly", SANDBOX]);
    refuse(&findings).unwrap();
}

#[tokio::test]
async fn risks_are_named() {
    let server = Redis::start().unwrap();
    for (setting, value) in
        [("appendfsync", "everysec"), ("no-appendfsync-on-rewrite", "yes"), ("busy-reply-threshold", "60000")]
    {
        server.ask(&["CONFIG", "SET", setting, value]).unwrap();
    }
    let findings = look(&server.url(), Durability::Kept).await;
    let expected = ["appendfsync", "busy-reply-threshold", "no-appendfsync-on-rewrite", SANDBOX];
    assert_eq!(of(&findings, Severity::Warn), expected);
    refuse(&findings).unwrap();
}

#[tokio::test]
async fn a_replica_is_refused_and_a_primary_that_writes_without_its_replicas_warned_of() {
    let primary = Redis::start().unwrap();
    let replica = primary.replica().unwrap();
    let findings = look(&replica.url(), Durability::Kept).await;
    assert_eq!(of(&findings, Severity::Refuse), ["role"]);
    let findings = look(&primary.url(), Durability::Kept).await;
    assert_eq!(of(&findings, Severity::Warn), ["replicas", SANDBOX]);
    primary.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let findings = look(&primary.url(), Durability::Kept).await;
    assert_eq!(of(&findings, Severity::Warn), [SANDBOX]);
}

#[tokio::test]
async fn where_settings_may_not_be_read_info_has_to_do() {
    let server = Redis::start().unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-config"]).unwrap();
    let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
    let findings = look(&url, Durability::Kept).await;
    assert_eq!(of(&findings, Severity::Refuse), ["maxmemory-policy"]);
    assert_eq!(of(&findings, Severity::Warn), ["appendfsync", SANDBOX]);
}

#[tokio::test]
async fn every_primary_of_a_cluster_is_looked_at() {
    let cluster = Cluster::start().unwrap();
    cluster.nodes()[1].ask(&["CONFIG", "SET", "appendonly", "no"]).unwrap();
    let findings = look(&cluster.url(), Durability::Kept).await;
    let refused: Vec<&Finding> = findings.iter().filter(|f| f.severity == Severity::Refuse).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].server.ends_with(&cluster.nodes()[1].port().to_string()), "{refused:?}");
}

#[tokio::test]
async fn functions_are_missing_then_there_and_noticed_when_somebody_changes_them() {
    let server = Redis::start().unwrap();
    let looking = Client::connect(&server.url(), &[], Options::default()).await.unwrap();
    let look = async || functions(&looking, LIBRARIES).await.unwrap();
    let missing = look().await;
    assert_eq!(missing[0].severity, Severity::Warn, "{missing:?}");
    assert!(
        missing[0].detail.contains(LIBRARIES[0].name) && missing[0].fix.contains("install"),
        "{missing:?}"
    );

    Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap();
    assert_eq!(look().await[0].severity, Severity::Fine);

    let code = format!("{}-- changed", LIBRARIES[0].code());
    server.ask(&["FUNCTION", "LOAD", "REPLACE", &code]).unwrap();
    let changed = look().await;
    assert!(changed[0].detail.contains("other code"), "{changed:?}");
}
