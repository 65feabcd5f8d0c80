//! Redis as a participant: what each call is answered and what it leaves, on a real server.

use std::collections::BTreeMap;
use std::sync::Arc;

use amends_core::definition::Method;
use amends_core::definition::redis::{RedisCall, RedisGuard, RedisTest};
use amends_core::request::{Payload, Request};
use amends_core::{Answer, Key, OpKind, SagaId};
use amends_participants::{
    Called, Caller as _, LeaseCheck, Outgoing, ParticipantConfig, Participants, Settings,
};
use amends_redis::RedisDriver;
use amends_testbed::redis::{Cluster, Redis};

/// Longer than any test takes.
pub(crate) const KEEP_MS: u64 = 7_200_000;

/// A participant `wallet` at a server.
#[derive(Clone)]
pub(crate) struct Wallet(Arc<Participants>);

impl Wallet {
    pub(crate) fn at(url: &str) -> Self {
        let configs = BTreeMap::from([("wallet".to_owned(), ParticipantConfig::new(url))]);
        Self(Arc::new(Participants::with_driver(configs, Settings::system(None), &RedisDriver).unwrap()))
    }

    /// Calls, and gives the answer as text: `200 {…}`, `not sent …`, `misconfigured …`, `lost …`, `held`.
    pub(crate) async fn call(&self, request: Request) -> String {
        self.leased(request, Arc::new(|| true)).await
    }

    async fn leased(&self, request: Request, lease: LeaseCheck) -> String {
        let outgoing = Outgoing { request, saga: saga("o:1"), epoch: 1, trace: None, lease };
        match self.0.call(outgoing).await {
            Called::Answered { answer: Answer::Response { status, body, .. }, .. } => {
                format!("{status} {}", String::from_utf8_lossy(&body))
            }
            Called::Answered { answer: Answer::NotSent(reason), .. } => format!("not sent {reason}"),
            Called::Answered { answer: Answer::Misconfigured(reason), .. } => {
                format!("misconfigured {reason}")
            }
            Called::Answered { answer: Answer::Lost(reason), .. } => format!("lost {reason}"),
            Called::Held { .. } => "held".to_owned(),
            Called::LeaseLost => "lease lost".to_owned(),
        }
    }
}

fn saga(id: &str) -> SagaId {
    SagaId::new(id).unwrap()
}

fn request(id: &str, operation: OpKind, commands: &[&str]) -> Request {
    let action_key = Key::new(&saga(id), "hold", OpKind::Action, 1);
    let words = |command: &&str| command.split(' ').map(str::to_owned).collect();
    let call = RedisCall { commands: commands.iter().map(words).collect(), guards: vec![], keep_ms: KEEP_MS };
    Request {
        to: "wallet".into(),
        method: Method::Post,
        path: "/".into(),
        headers: vec![],
        body: Some(Payload::Redis(call)),
        timeout_ms: 20_000,
        key: Key::new(&saga(id), "hold", operation, 1),
        action_key: (operation == OpKind::Compensation).then_some(action_key),
        step: "hold".into(),
        operation,
        attempt: 1,
        is_query: false,
    }
}

/// The action of a saga.
pub(crate) fn act(id: &str, commands: &[&str]) -> Request {
    request(id, OpKind::Action, commands)
}

/// Its compensation.
pub(crate) fn undo(id: &str, commands: &[&str]) -> Request {
    request(id, OpKind::Compensation, commands)
}

pub(crate) fn query(of: Request) -> Request {
    Request { is_query: true, ..of }
}

fn guarded(mut of: Request, key: &str, field: Option<&str>, test: RedisTest<String>) -> Request {
    if let Some(Payload::Redis(call)) = &mut of.body {
        call.guards.push(RedisGuard { key: key.to_owned(), field: field.map(str::to_owned), test });
    }
    of
}

const TAKE: &[&str] = &["HINCRBY bal:{u} amount -5", "SADD {u}:holds o"];
const GIVE: &[&str] = &["HINCRBY bal:{u} amount 5", "SREM {u}:holds o"];

const DONE: &str = r#"200 {"results":["95","1"]}"#;
const UNDONE: &str = r#"200 {"results":["100","1"],"undone":true}"#;
const NOTHING: &str = r#"200 {"undone":false}"#;
const NEVER: &str = r#"404 {"outcome":"never_seen"}"#;

fn server_with_balance() -> (Redis, Wallet) {
    let server = Redis::start().unwrap();
    server.ask(&["HSET", "bal:{u}", "amount", "100"]).unwrap();
    let wallet = Wallet::at(&server.url());
    (server, wallet)
}

#[tokio::test]
async fn the_same_key_gets_the_same_answer_and_is_undone_once() {
    let (server, wallet) = server_with_balance();
    let balance = || server.ask(&["HGET", "bal:{u}", "amount"]).unwrap();
    assert_eq!(wallet.call(query(act("a", TAKE))).await, NEVER);
    for _ in 0..3 {
        assert_eq!(wallet.call(act("a", TAKE)).await, DONE);
        assert_eq!(wallet.call(query(act("a", TAKE))).await, DONE);
        assert_eq!(balance(), "95");
    }
    assert_eq!(wallet.call(query(undo("a", GIVE))).await, NEVER);
    for _ in 0..3 {
        assert_eq!(wallet.call(undo("a", GIVE)).await, UNDONE);
        assert_eq!(wallet.call(query(undo("a", GIVE))).await, UNDONE);
        assert_eq!(balance(), "100");
        // A late repeat of the action is answered as before, and does nothing.
        assert_eq!(wallet.call(act("a", TAKE)).await, DONE);
    }
    assert_eq!(server.ask(&["SCARD", "{u}:holds"]).unwrap(), "0");
    let other = Request { key: Key::new(&saga("a"), "hold", OpKind::Compensation, 2), ..undo("a", GIVE) };
    assert_eq!(
        wallet.call(other).await,
        r#"200 {"results":[],"undone":true}"#,
        "another key does not undo it again"
    );
    assert_eq!(balance(), "100");
}

#[tokio::test]
async fn what_never_ran_is_recorded_and_comes_too_late() {
    let (server, wallet) = server_with_balance();
    for _ in 0..2 {
        assert_eq!(wallet.call(undo("a", GIVE)).await, NOTHING);
        assert_eq!(wallet.call(query(undo("a", GIVE))).await, NOTHING);
        assert!(
            wallet
                .call(act("a", TAKE))
                .await
                .starts_with("422 {\"outcome\":\"rejected\",\"reason\":\"it came after")
        );
        assert_eq!(wallet.call(query(act("a", TAKE))).await, r#"410 {"outcome":"sealed"}"#);
    }
    assert_eq!(server.ask(&["HGET", "bal:{u}", "amount"]).unwrap(), "100");
    // Neither is there anything to undo of what was refused.
    let poor = guarded(act("b", TAKE), "bal:{u}", Some("amount"), RedisTest::AtLeast("101".into()));
    assert!(wallet.call(poor.clone()).await.starts_with("422"));
    assert_eq!(wallet.call(undo("b", GIVE)).await, NOTHING);
    assert!(wallet.call(poor).await.contains("less than 101"), "the first answer stands");
    assert_eq!(server.ask(&["HGET", "bal:{u}", "amount"]).unwrap(), "100");
}

#[tokio::test]
async fn refusals_are_kept_and_change_nothing() {
    let (server, wallet) = server_with_balance();
    server.ask(&["SET", "text:{u}", "abc"]).unwrap();
    server.ask(&["SET", "full:{u}", "9223372036854775807"]).unwrap();
    let before = server.ask(&["HGETALL", "bal:{u}"]).unwrap();
    let take = |id: &str, second: &str| act(id, &["HINCRBY bal:{u} amount -5", second]);
    let bound = |bound: &str| RedisTest::AtLeast(bound.to_owned());
    for (nth, (request, reason)) in [
        (take("0", "INCRBY text:{u} 1"), "text:{u} is no integer"),
        (take("1", "SADD text:{u} x"), "text:{u} holds a string, not a set"),
        (take("2", "INCRBY full:{u} 1"), "would leave 64 bits"),
        (
            guarded(act("3", TAKE), "bal:{u}", Some("amount"), bound("101")),
            "bal:{u} amount is 100, less than 101",
        ),
        (guarded(act("4", TAKE), "none:{u}", None, RedisTest::Exists), "none:{u} does not exist"),
        (
            guarded(act("5", TAKE), "text:{u}", None, RedisTest::Equals("abd".into())),
            "text:{u} is not what it must be",
        ),
        (guarded(act("6", TAKE), "text:{u}", None, bound("1")), "text:{u} is no integer"),
    ]
    .into_iter()
    .enumerate()
    {
        let said = wallet.call(request.clone()).await;
        assert!(said.starts_with("422 {\"outcome\":\"rejected\"") && said.contains(reason), "{nth}: {said}");
        assert_eq!(wallet.call(request.clone()).await, said);
        let asked = wallet.call(query(request)).await;
        assert!(asked.starts_with("409 ") && asked.contains(reason), "{nth}: {asked}");
    }
    assert_eq!(server.ask(&["HGETALL", "bal:{u}"]).unwrap(), before);
    // A refusal stands also when the reason for it is gone.
    server.ask(&["SET", "text:{u}", "1"]).unwrap();
    assert!(wallet.call(take("0", "INCRBY text:{u} 1")).await.contains("is no integer"));
    // A compensation that is refused undoes nothing, and leaves the action as it is.
    assert_eq!(wallet.call(act("7", TAKE)).await, DONE);
    let refused = undo("7", &["HINCRBY bal:{u} amount 5", "SADD full:{u} x"]);
    assert!(wallet.call(refused.clone()).await.contains("full:{u} holds a string"));
    assert!(wallet.call(query(refused)).await.starts_with("409"));
    assert_eq!(server.ask(&["HGET", "bal:{u}", "amount"]).unwrap(), "95");
    // By a person's leave it is done under another key.
    let second = Request { key: Key::new(&saga("7"), "hold", OpKind::Compensation, 2), ..undo("7", GIVE) };
    assert_eq!(wallet.call(second).await, UNDONE);
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused_before_anything_is_sent() {
    let nobody = Wallet::at("redis://127.0.0.1:1");
    for (request, reason) in [
        (act("a", &["HINCRBY bal:{u} amount --5"]), "HINCRBY needs a whole number where it has \\\"--5\\\""),
        (act("a", &["INCRBY a 1.5"]), "INCRBY needs a whole number"),
        (act("a", &["INCRBY a{1} 1", "INCRBY a{2} 1"]), "have different hash tags"),
        (guarded(act("a", TAKE), "x{v}", None, RedisTest::Exists), "have different hash tags"),
        (act("a", &["SET a{} 1"]), "has no hash tag"),
    ] {
        let said = nobody.call(request.clone()).await;
        assert!(said.starts_with("422 ") && said.contains(reason), "{said}");
        assert!(nobody.call(query(request)).await.starts_with("409 "));
    }
    // What only the functions judge: nothing ran, and nothing is kept.
    let (server, wallet) = server_with_balance();
    let said = wallet.call(act("a", &["HINCRBY bal:{u} amount -5", "ZADD {u}:z NX GT 1 m"])).await;
    assert!(said.starts_with("422 ") && said.contains("options that do not fit"), "{said}");
    let said = wallet.call(act("a", &["SET amends:fence:{u}:x 1"])).await;
    assert!(said.contains("may not touch keys that begin with amends:fence:"), "{said}");
    assert_eq!(server.ask(&["DBSIZE"]).unwrap(), "1");
}

#[tokio::test]
async fn other_commands_under_a_key_are_not_run() {
    let (server, wallet) = server_with_balance();
    assert_eq!(wallet.call(act("a", TAKE)).await, DONE);
    let other = wallet.call(act("a", &["HINCRBY bal:{u} amount -6", "SADD {u}:holds o"])).await;
    assert!(other.starts_with("misconfigured this key was used for other commands"), "{other}");
    let strict = guarded(act("a", TAKE), "bal:{u}", None, RedisTest::Exists);
    assert!(wallet.call(strict).await.starts_with("misconfigured this key"));
    assert_eq!(wallet.call(undo("a", GIVE)).await, UNDONE);
    let other = wallet.call(undo("a", &["HINCRBY bal:{u} amount 6"])).await;
    assert!(other.starts_with("misconfigured this key"), "{other}");
    let of_another =
        Request { action_key: Some(Key::new(&saga("b"), "hold", OpKind::Action, 1)), ..undo("a", GIVE) };
    assert!(wallet.call(of_another).await.starts_with("misconfigured this key"));
    assert_eq!(server.ask(&["HGET", "bal:{u}", "amount"]).unwrap(), "100");
    // Nor is what another program keeps there touched.
    server.ask(&["SET", "amends:fence:{u}:c:hold:action", "x"]).unwrap();
    for request in [act("c", TAKE), undo("c", GIVE), query(act("c", TAKE))] {
        let said = wallet.call(request).await;
        assert!(said.starts_with("misconfigured amends:fence:{u}:c:hold:action holds a string"), "{said}");
    }
}

#[tokio::test]
async fn records_outlive_the_key_and_nothing_renews_them() {
    let (server, wallet) = server_with_balance();
    let ttl = |key: &str| server.ask(&["PTTL", key]).unwrap().parse::<u64>().unwrap();
    wallet.call(act("a", TAKE)).await;
    wallet.call(undo("b", GIVE)).await;
    for record in ["a:hold:action", "b:hold:action", "b:hold:compensation"] {
        let key = format!("amends:fence:{{u}}:{record}");
        assert!((KEEP_MS - 60_000..=KEEP_MS).contains(&ttl(&key)), "{record}: {}", ttl(&key));
        server.ask(&["PEXPIRE", &key, "100000"]).unwrap();
    }
    wallet.call(act("a", TAKE)).await;
    wallet.call(query(act("a", TAKE))).await;
    wallet.call(undo("b", GIVE)).await;
    wallet.call(act("b", TAKE)).await;
    wallet.call(undo("a", GIVE)).await;
    for record in ["a:hold:action", "b:hold:action", "b:hold:compensation"] {
        assert!(ttl(&format!("amends:fence:{{u}}:{record}")) <= 100_000, "{record}");
    }
}

#[tokio::test]
async fn facts_are_bounded_and_hostile_names_are_only_names() {
    let server = Redis::start().unwrap();
    let wallet = Wallet::at(&server.url());
    let long = "x".repeat(5_000);
    server.ask(&["SET", "k", &long]).unwrap();
    let said = wallet.call(act("a", &["SET k y GET", "SET k z"])).await;
    assert!(said.len() < 1_100 && said.ends_with("x\",\"OK\"]}"), "{said}");
    for id in ["o {x}", "}{", "ü:\"'", "a\\b"] {
        let said = wallet.call(act(id, &["INCRBY n:{u} 1"])).await;
        assert!(said.starts_with("200 "), "{id}: {said}");
        assert_eq!(wallet.call(act(id, &["INCRBY n:{u} 1"])).await, said);
    }
    assert_eq!(server.ask(&["GET", "n:{u}"]).unwrap(), "4");
}

#[tokio::test]
async fn a_cluster_refuses_other_slots_before_anything_ran() {
    let cluster = Cluster::start().unwrap();
    let wallet = Wallet::at(&cluster.url());
    let all = || {
        cluster.nodes().iter().map(|node| node.ask(&["DBSIZE"]).unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    let said = wallet.call(act("a", &["INCRBY a:{1} 1", "INCRBY a:{2} 1"])).await;
    assert!(said.starts_with("422 ") && said.contains("have different hash tags") && all() == 0, "{said}");
    for tag in ["1", "2", "3", "x", "y"] {
        let (take, give) = (format!("INCRBY a:{{{tag}}} 7"), format!("DECRBY a:{{{tag}}} 7"));
        assert_eq!(wallet.call(act(tag, &[&take])).await, r#"200 {"results":["7"]}"#);
        assert_eq!(wallet.call(query(act(tag, &[&take]))).await, r#"200 {"results":["7"]}"#);
        assert_eq!(wallet.call(undo(tag, &[&give])).await, r#"200 {"results":["0"],"undone":true}"#);
    }
    assert_eq!(all(), 15, "two records and a number for each tag");
}

#[tokio::test]
async fn without_a_lease_nothing_is_sent() {
    let (server, wallet) = server_with_balance();
    assert_eq!(wallet.leased(act("a", TAKE), Arc::new(|| false)).await, "lease lost");
    assert_eq!(server.ask(&["DBSIZE"]).unwrap(), "1");
}
