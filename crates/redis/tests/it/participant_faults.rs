//! Redis as a participant while callers race and servers fail: one effect or none, and one answer.

use std::collections::BTreeSet;

use amends_core::request::Request;
use amends_testbed::redis::{Cluster, Redis};

use crate::participant::{Wallet, act, query, undo};

const TAKE: &[&str] = &["DECRBY n:{u} 5", "RPUSH story:{u} take"];
const GIVE: &[&str] = &["INCRBY n:{u} 5", "RPUSH story:{u} give"];

fn quick(request: Request) -> Request {
    Request { timeout_ms: 300, ..request }
}

/// Lets 25 callers act and 25 undo, over four connections, and gives the answers of each.
async fn race(wallets: &[Wallet], id: &str, first: usize) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut callers = tokio::task::JoinSet::new();
    for nth in 0..50 {
        let wallet = wallets[nth % wallets.len()].clone();
        let is_act = (nth + first).is_multiple_of(2);
        let request = if is_act { act(id, TAKE) } else { undo(id, GIVE) };
        callers.spawn(async move { (is_act, wallet.call(request).await) });
    }
    let (mut acts, mut undos) = (BTreeSet::new(), BTreeSet::new());
    while let Some(ended) = callers.join_next().await {
        let (is_act, said) = ended.unwrap();
        if is_act {
            acts.insert(said)
        } else {
            undos.insert(said)
        };
    }
    (acts, undos)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_callers_of_one_step_see_one_story() {
    let server = Redis::start().unwrap();
    let wallets: Vec<_> = (0..4).map(|_| Wallet::at(&server.url())).collect();
    let mut sealed = 0;
    for nth in 0..12 {
        server.ask(&["DEL", "n:{u}", "story:{u}"]).unwrap();
        let (acts, undos) = race(&wallets, &format!("o{nth}"), nth % 2).await;
        assert_eq!((acts.len(), undos.len()), (1, 1), "{acts:?} {undos:?}");
        let story = server.ask(&["LRANGE", "story:{u}", "0", "-1"]).unwrap();
        if acts.first().unwrap().starts_with("200 ") {
            assert!(undos.first().unwrap().contains("\"undone\":true"), "{undos:?}");
            assert_eq!(
                (story.as_str(), server.ask(&["GET", "n:{u}"]).unwrap().as_str()),
                ("take\ngive", "0")
            );
        } else {
            sealed += 1;
            assert!(undos.first().unwrap().contains("\"undone\":false"), "{undos:?}");
            assert_eq!(story, "");
        }
    }
    // Who comes first is drawn; a tombstone is certain here.
    assert!(wallets[0].call(undo("last", GIVE)).await.contains("false"));
    let (acts, _) = race(&wallets, "last", 0).await;
    assert!(acts.first().unwrap().contains("it came after its compensation"), "{acts:?} after {sealed}");
}

#[tokio::test]
async fn what_was_answered_outlives_the_server() {
    let mut server = Redis::start().unwrap();
    let wallet = Wallet::at(&server.url());
    let done = wallet.call(act("a", TAKE)).await;
    assert!(wallet.call(undo("b", GIVE)).await.contains("false"));
    server.kill();
    let gone = wallet.call(act("a", TAKE)).await;
    assert!(gone.starts_with("lost ") || gone.starts_with("not sent "), "{gone}");
    assert!(wallet.call(act("a", TAKE)).await.starts_with("not sent redis at 127.0.0.1:"));
    server.restart().unwrap();
    assert_eq!(wallet.call(act("a", TAKE)).await, done);
    assert!(wallet.call(act("b", TAKE)).await.starts_with("422 "));
    assert_eq!(server.ask(&["GET", "n:{u}"]).unwrap(), "-5");
    server.ask(&["FUNCTION", "FLUSH"]).unwrap();
    assert!(wallet.call(undo("a", GIVE)).await.contains("\"undone\":true"));
    assert_eq!(server.ask(&["LRANGE", "story:{u}", "0", "-1"]).unwrap(), "take\ngive");
}

#[tokio::test]
async fn a_server_that_hangs_leaves_it_open_and_is_connected_to_anew() {
    let server = Redis::start().unwrap();
    let wallet = Wallet::at(&server.url());
    assert!(wallet.call(act("a", TAKE)).await.starts_with("200 "));
    server.process().pause(true).unwrap();
    assert_eq!(wallet.call(quick(act("b", TAKE))).await, "lost no answer within 300 ms");
    let second = wallet.call(quick(act("b", TAKE))).await;
    assert_eq!(second, "not sent no connection within 300 ms");
    server.process().pause(false).unwrap();
    let done = wallet.call(act("b", TAKE)).await;
    assert_eq!(wallet.call(query(act("b", TAKE))).await, done);
    assert_eq!(server.ask(&["LLEN", "story:{u}"]).unwrap(), "2", "once, whenever it was");
}

#[tokio::test]
async fn where_functions_are_not_permitted_scripts_do_the_same() {
    let server = Redis::start().unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-function", "-fcall"]).unwrap();
    let wallet = Wallet::at(&format!("redis://app@127.0.0.1:{}", server.port()));
    let done = wallet.call(act("a", TAKE)).await;
    assert_eq!(done, r#"200 {"results":["-5","1"]}"#);
    server.ask(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(wallet.call(query(act("a", TAKE))).await, done);
    assert!(wallet.call(undo("a", GIVE)).await.contains("\"undone\":true"));
    assert!(wallet.call(undo("b", GIVE)).await.contains("\"undone\":false"));
    assert!(wallet.call(act("b", TAKE)).await.starts_with("422 "));
    assert_eq!(server.ask(&["GET", "n:{u}"]).unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_do_it_now_has_not_done_it() {
    let server = Redis::start().unwrap();
    let wallet = Wallet::at(&server.url());
    assert!(wallet.call(act("a", TAKE)).await.starts_with("200 "));

    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert!(wallet.call(act("b", TAKE)).await.starts_with("not sent redis: OOM"));
    assert!(wallet.call(query(act("a", TAKE))).await.starts_with("200 "), "asking takes no memory");
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();

    let replica = Wallet::at(&server.replica().unwrap().url());
    let said = replica.call(act("b", TAKE)).await;
    assert!(said.starts_with("not sent "), "{said}");

    server.ask(&["CONFIG", "SET", "busy-reply-threshold", "20"]).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| server.ask(&["EVAL", "while true do end", "0"]));
        std::thread::sleep(std::time::Duration::from_millis(200));
        let said = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(wallet.call(act("b", TAKE)))
        });
        server.ask(&["SCRIPT", "KILL"]).unwrap();
        assert!(busy.join().unwrap().is_err());
        assert!(said.starts_with("not sent redis: BUSY"), "{said}");
    });

    assert_eq!(server.ask(&["LLEN", "story:{u}"]).unwrap(), "1");
    assert!(wallet.call(act("b", TAKE)).await.starts_with("200 "));
}

#[tokio::test]
async fn in_a_cluster_no_error_proves_that_nothing_happened() {
    let mut cluster = Cluster::start().unwrap();
    let wallet = Wallet::at(&cluster.url());
    assert!(wallet.call(act("a", TAKE)).await.starts_with("200 "));
    let set = |cluster: &Cluster, limit: &str| {
        cluster
            .nodes()
            .iter()
            .for_each(|node| drop(node.ask(&["CONFIG", "SET", "maxmemory", limit]).unwrap()));
    };
    set(&cluster, "1");
    let said = wallet.call(act("b", TAKE)).await;
    assert!(said.starts_with("lost redis: OOM"), "{said}");
    set(&cluster, "0");
    assert!(wallet.call(act("b", TAKE)).await.starts_with("200 "));
    for nth in 0..3 {
        cluster.node_mut(nth).unwrap().kill();
    }
    for _ in 0..2 {
        let said = wallet.call(quick(act("c", TAKE))).await;
        assert!(said.starts_with("lost ") || said.starts_with("not sent no connection"), "{said}");
    }
}

#[tokio::test]
async fn what_is_not_permitted_waits_for_people_and_is_not_kept_as_a_refusal() {
    let server = Redis::start().unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", ">right", "~*", "+@all", "-rpush"]).unwrap();
    let url = |password: &str| format!("redis://app:{password}@127.0.0.1:{}", server.port());
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), url("wrong")).unwrap();
    let wallet = Wallet::at(&format!("file:{}", path.path().display()));
    let said = wallet.call(act("a", TAKE)).await;
    assert!(said.starts_with("misconfigured participant `wallet`: ") && !said.contains("wrong@"), "{said}");
    std::fs::write(path.path(), url("right")).unwrap();
    let said = wallet.call(act("a", TAKE)).await;
    assert!(said.starts_with("misconfigured this user may not call RPUSH"), "{said}");
    assert_eq!(server.ask(&["DBSIZE"]).unwrap(), "0");
    server.ask(&["ACL", "SETUSER", "app", "-pexpire", "+rpush"]).unwrap();
    let said = wallet.call(undo("a", GIVE)).await;
    assert!(
        said.starts_with("misconfigured this user may not write amends:fence:{u}:a:hold:compensation"),
        "{said}"
    );
    server.ask(&["ACL", "SETUSER", "app", "+pexpire"]).unwrap();
    assert!(wallet.call(act("a", TAKE)).await.starts_with("200 "));
}
