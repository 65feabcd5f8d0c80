//! The store while its server is killed, flushed, full, or out of reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use amends_redis::{RedisStore, StoreOptions};
use amends_store::conformance::crossing;
use amends_store::conformance::samples::*;
use amends_store::{
    Advanced, Health as _, Item, Journal as _, Kind, Lists as _, Nodes as _, Outcome, Store, Submission,
    Submitted, Work as _,
};
use amends_testbed::redis::{Cluster, Redis};

use crate::store_support::Way;

async fn open(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(url, StoreOptions::default()).await.unwrap())
}

fn failed(outcome: Outcome) -> amends_store::Error {
    match outcome {
        Outcome::Failed(error) => error,
        other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("not failed: {other:?}"),
    }
}

/// Waits until the store says of itself that it is well; a very slow machine may need long.
async fn until_well(store: &RedisStore) {
    for _ in 0..1_200 {
        if store.health().is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", store.health());
}

/// What was acknowledged, what is not known, and every failure.
type Outcomes = (Vec<Submission>, Vec<Submission>, Vec<Kind>);

/// Callers that submit one saga after the other until told to stop; they give what was acknowledged, and what is not known.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    callers: Vec<tokio::task::JoinHandle<Outcomes>>,
}

impl Load {
    fn begin(store: &Arc<RedisStore>) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let callers: Vec<_> = (0..16)
            .map(|caller: u64| {
                let (store, stop, done) = (Arc::clone(store), Arc::clone(&stop), Arc::clone(&done));
                tokio::spawn(async move {
                    let (mut known, mut unknown, mut errors) = (Vec::new(), Vec::new(), Vec::new());
                    for nth in 0_u64.. {
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                        let text = format!("order:{caller}:{nth}");
                        let new =
                            Submission { nonce: caller << 32 | nth, ..submission(row(&text), &[&text]) };
                        match commit(&*store, Item::Submit(new.clone())).await {
                            Outcome::Submitted(Submitted::Created(_)) => {
                                done.fetch_add(1, Ordering::SeqCst);
                                known.push(new);
                            }
                            Outcome::Failed(error) => {
                                errors.push(error.kind);
                                if error.kind == Kind::Indeterminate {
                                    unknown.push(new);
                                }
                                // As an engine would: who spins keeps the runtime from all else.
                                tokio::time::sleep(Duration::from_millis(1)).await;
                            }
                            other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
                        }
                    }
                    (known, unknown, errors)
                })
            })
            .collect();
        Self { stop, done, callers }
    }

    async fn until_done(&self, count: u64) {
        let from = self.done.load(Ordering::SeqCst);
        while self.done.load(Ordering::SeqCst) < from + count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn end(self) -> Outcomes {
        self.stop.store(true, Ordering::SeqCst);
        let (mut known, mut unknown, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for caller in self.callers {
            let (k, u, e) = caller.await.unwrap();
            known.extend(k);
            unknown.extend(u);
            errors.extend(e);
        }
        (known, unknown, errors)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_the_server() {
    let mut server = Redis::start().unwrap();
    let store = open(&server.url()).await;
    let load = Load::begin(&store);
    load.until_done(300).await;
    server.kill();
    server.restart().unwrap();
    load.until_done(300).await;
    let (known, unknown, errors) = load.end().await;
    assert!(known.len() >= 600 && !errors.is_empty(), "{} known, {errors:?}", known.len());
    for submission in &known {
        let wrote = store.wrote(&submission.row.id, 1, submission.nonce).await.unwrap();
        assert_eq!(wrote, Some(true), "{}", submission.row.id);
    }
    // Nothing was sent twice: what is not known is whole, or not there at all.
    let mut stands = 0;
    for submission in &unknown {
        let wrote = store.wrote(&submission.row.id, 1, submission.nonce).await.unwrap();
        let there = store.load(&submission.row.id).await.unwrap();
        assert_eq!(wrote == Some(true), there.is_some_and(|stored| stored.entries.len() == 1));
        stands += u64::from(wrote == Some(true));
    }
    let open: u64 = store.stats(now()).await.unwrap().open.iter().map(|(_, _, count)| count).sum();
    assert_eq!(open, known.len() as u64 + stands);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_may_be_flushed_under_load() {
    let server = Redis::start().unwrap();
    let store = open(&server.url()).await;
    let load = Load::begin(&store);
    for _ in 0..10 {
        load.until_done(20).await;
        server.ask(&["FUNCTION", "FLUSH"]).unwrap();
    }
    let (_, _, errors) = load.end().await;
    assert_eq!(errors, []);
}

#[tokio::test]
async fn without_memory_it_says_so_keeps_leases_and_comes_back() {
    let server = Redis::start().unwrap();
    let store = open(&server.url()).await;
    let lease = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1").owned(&lease), &["a"])).await;
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let batch = ["order:2", "order:3"].map(|text| Item::Submit(submission(row(text), &[])));
    for outcome in store.commit(batch.to_vec()).await {
        let error = failed(outcome);
        assert_eq!(error.kind, Kind::Unwritable);
        assert!(error.message.contains("maxmemory"), "{error}");
    }
    assert_eq!(store.health().unwrap_err().kind, Kind::Unwritable);
    assert!(store.claim_due(&lease, now(), 1).await.is_err());
    assert!(store.renew(&lease, TTL_MS, now()).await.unwrap().is_some());
    assert_eq!(store.load(&id("order:2")).await.unwrap(), None);
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    until_well(&store).await;
    assert_eq!(step(&*store, end("order:1", rowid, 1, now())).await, Advanced::Committed);
}

/// Once begun, a call runs to its end: memory is looked at before it.
#[tokio::test]
async fn memory_that_runs_out_leaves_whole_batches() {
    let server = Redis::start().unwrap();
    let store = open(&server.url()).await;
    let used: u64 = server
        .ask(&["INFO", "memory"])
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:").map(|n| n.trim().parse().unwrap()))
        .unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", &(used + 3_000_000).to_string()]).unwrap();
    let (mut whole, mut refused) = (0, 0);
    for batch in 0..40 {
        let items = (0..20).map(|nth| {
            let text = format!("order:{batch}:{nth}");
            let mut new = submission(row(&text), &[&text]);
            new.entries[0].body = vec![b'x'; 20_000];
            Item::Submit(new)
        });
        let outcomes = store.commit(items.collect()).await;
        let created =
            outcomes.iter().filter(|o| matches!(o, Outcome::Submitted(Submitted::Created(_)))).count();
        let mut there = 0;
        for nth in 0..20 {
            there += usize::from(store.load(&id(&format!("order:{batch}:{nth}"))).await.unwrap().is_some());
        }
        assert_eq!(created, there);
        assert!(created == 0 || created == 20, "{created} of one call");
        if created > 0 { whole += 1 } else { refused += 1 }
    }
    assert!(whole > 0 && refused > 0, "{whole} whole, {refused} refused");
}

#[tokio::test]
async fn sagas_claimed_by_a_call_whose_answer_was_lost_are_named_again() {
    let server = Redis::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    let lease = join(&*store, "n1").await;
    for text in ["a", "b"] {
        create(&*store, submission(row(text).due(in_ms(-10)), &[])).await;
    }
    way.lose_the_next_answer();
    let lost = store.claim_due(&lease, now(), 10).await.unwrap_err();
    assert_eq!(lost.kind, Kind::Indeterminate);
    assert_eq!(load(&*store, "a").await.row.owner, Some(("n1".to_owned(), lease.epoch)));
    assert_eq!(claim_due(&*store, &lease, 10).await, ["a", "b"]);
    assert_eq!(claim_due(&*store, &lease, 10).await, Vec::<String>::new());

    let gone = join(&*store, "gone").await;
    create(&*store, submission(row("c").owned(&gone), &[])).await;
    store.leave(&gone).await.unwrap();
    way.lose_the_next_answer();
    assert!(store.take_over(&lease, now(), 10).await.is_err());
    assert_eq!(store.take_over(&lease, now(), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_answer_is_told_by_its_nonce() {
    let server = Redis::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    let new = Submission { nonce: 77, ..submission(row("order:1"), &["a"]) };
    way.lose_the_next_answer();
    assert_eq!(failed(commit(&*store, Item::Submit(new.clone())).await).kind, Kind::Indeterminate);
    assert_eq!(store.wrote(&new.row.id, 1, 77).await.unwrap(), Some(true));
    assert_eq!(submit(&*store, new).await, Submitted::Same);
}

#[tokio::test]
async fn a_cluster_and_settings_that_lose_data_are_refused() {
    let cluster = Cluster::start().unwrap();
    let refused = RedisStore::open(&cluster.url(), StoreOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.contains("cluster"), "{refused}");

    let forgetful = Redis::with(&[("appendonly", "no"), ("maxmemory-policy", "allkeys-lru")]).unwrap();
    let refused = RedisStore::open(&forgetful.url(), StoreOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.contains("appendonly"), "{refused}");
}

#[tokio::test]
async fn a_store_of_another_layout_is_refused_and_left_as_it_is() {
    let server = Redis::start().unwrap();
    let store = open(&server.url()).await;
    create(&*store, submission(row("order:1"), &["a"])).await;
    let meta = "amends:store:meta";
    server.ask(&["HSET", meta, "version", "2", "run", "an earlier one"]).unwrap();
    let refused = RedisStore::open(&server.url(), StoreOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.contains("version 2") && refused.message.contains("empty server"), "{refused}");
    let runs = server.ask(&["HGET", meta, "run"]).unwrap();
    assert!(runs.contains("an earlier one"), "{runs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_is_sent_as_scripts_where_functions_are_not_permitted() {
    let server = Redis::start().unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", ">pw", "~amends:*", "+@all", "-function", "-fcall"]).unwrap();
    let store = open(&format!("redis://app:pw@127.0.0.1:{}", server.port())).await;
    let store: Arc<dyn Store> = store;
    amends_store::conformance::model::random_histories_are_answered_as_by_the_reference(store).await;
}

#[tokio::test]
async fn a_commit_waits_for_replicas_where_the_url_says_so() {
    let server = Redis::start().unwrap();
    let replica = server.replica().unwrap();
    let store = open(&format!("{}/0?wait=1&wait_timeout=200ms", server.url())).await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    replica.process().pause(true).unwrap();
    let moved = advance("order:1", rowid, 1, 1);
    let late = failed(commit(&*store, Item::Advance(moved.clone())).await);
    assert_eq!(late.kind, Kind::Indeterminate, "{late}");
    // It stands here, but nobody is told so before the replica has it.
    assert_eq!(store.wrote(&moved.id, 2, moved.nonce).await.unwrap_err().kind, Kind::Unavailable);
    assert!(store.health().unwrap_err().message.contains("replicas"));
    let lease = join(&*store, "n1").await;
    assert!(store.renew(&lease, TTL_MS, now()).await.unwrap().is_some(), "leases do not wait");
    replica.process().pause(false).unwrap();
    until_well(&store).await;
    assert_eq!(store.wrote(&moved.id, 2, moved.nonce).await.unwrap(), Some(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_what_is_due_and_what_lapsed() {
    let server = Redis::start().unwrap();
    let stores: [Arc<dyn Store>; 2] = [open(&server.url()).await, open(&server.url()).await];
    crossing::two_nodes_share_what_is_due_and_what_lapsed(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_nodes_that_cross_are_each_decided() {
    let server = Redis::start().unwrap();
    let stores: [Arc<dyn Store>; 2] = [open(&server.url()).await, open(&server.url()).await];
    crossing::batches_of_two_nodes_that_cross_are_each_decided(stores).await;
}
