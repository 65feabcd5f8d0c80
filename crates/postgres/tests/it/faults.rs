//! The server killed, out of reach, or taking no writes; answers lost; two nodes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use amends_postgres::PostgresStore;
use amends_store::conformance::crossing;
use amends_store::conformance::samples::*;
use amends_store::{
    Advance, Advanced, Health as _, Item, Journal as _, Kind, Lists as _, Nodes as _, Outcome, Store,
    Submission, Submitted, Work as _,
};
use amends_testbed::postgres::Postgres;

use crate::way::Way;

async fn open(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(url).await.unwrap())
}

fn failed(outcome: Outcome) -> amends_store::Error {
    match outcome {
        Outcome::Failed(error) => error,
        Outcome::Submitted(_) | Outcome::Advanced(_) => panic!("it did not fail: {outcome:?}"),
    }
}

/// Only what hangs is ended by it.
fn within() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A batch with this item. Another one, of a saga that is there, makes the store look before it decides: as it is, a batch is one statement.
fn looked_at(known: &str, item: Item) -> Vec<Item> {
    vec![Item::Submit(submission(row(known), &[])), item]
}

/// What callers were told: created, and not known whether.
type Told = (Vec<Submission>, Vec<Submission>, Vec<Kind>);

/// Submits one saga after the other until told to stop.
async fn submit_on(
    store: Arc<PostgresStore>,
    caller: u64,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> Told {
    let (mut known, mut unknown, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let text = format!("order:{caller}:{nth}");
        let new = Submission { nonce: caller << 32 | nth, ..submission(row(&text), &[&text]) };
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
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
        }
    }
    (known, unknown, errors)
}

async fn until_done(done: &AtomicU64, count: u64) {
    let from = done.load(Ordering::SeqCst);
    while done.load(Ordering::SeqCst) < from + count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_the_server() {
    let mut server = Postgres::start().unwrap();
    let store = open(&server.url()).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..16)
        .map(|caller| tokio::spawn(submit_on(store.clone(), caller, stop.clone(), done.clone())))
        .collect();
    for _ in 0..2 {
        until_done(&done, 200).await;
        server.kill();
        server.restart().unwrap();
    }
    until_done(&done, 200).await;
    stop.store(true, Ordering::SeqCst);
    let (mut known, mut unknown, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for caller in callers {
        let told = caller.await.unwrap();
        known.extend(told.0);
        unknown.extend(told.1);
        errors.extend(told.2);
    }
    assert!(known.len() >= 600 && !errors.is_empty(), "{} known, {errors:?}", known.len());
    assert!(errors.iter().all(|kind| matches!(kind, Kind::Unavailable | Kind::Indeterminate)), "{errors:?}");
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

#[tokio::test]
async fn a_lost_answer_is_told_by_its_nonce() {
    let server = Postgres::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    create(&*store, submission(row("order:0"), &[])).await;
    for (answer, known, id) in [("SELECT 1", None, "order:1"), ("COMMIT", Some("order:0"), "order:2")] {
        let new = Submission { nonce: 77, ..submission(row(id), &[id]) };
        let item = Item::Submit(new.clone());
        let batch = known.map_or_else(|| vec![item.clone()], |known| looked_at(known, item.clone()));
        way.lose_answer_to(answer);
        let error = failed(store.commit(batch).await.pop().unwrap());
        assert_eq!(error.kind, Kind::Indeterminate, "{error}");
        let until = within();
        let wrote = loop {
            match store.wrote(&new.row.id, 1, 77).await {
                Ok(wrote) => break wrote,
                Err(error) => assert!(error.kind == Kind::Unavailable && Instant::now() < until, "{error}"),
            }
        };
        // The server may notice the cut first, in which case nothing is there, and that is for ever.
        match wrote {
            Some(true) => assert_eq!(submit(&*store, new).await, Submitted::Same),
            None => assert!(matches!(submit(&*store, new).await, Submitted::Created(_))),
            Some(false) => panic!("nobody else wrote it"),
        }
    }
}

#[tokio::test]
async fn an_answer_lost_before_anything_was_written_is_no_doubt() {
    let server = Postgres::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    create(&*store, submission(row("order:0"), &[])).await;
    let new = submission(row("order:1"), &["a"]);
    way.lose_answer_to("BEGIN");
    // All is as expected: one statement does it.
    create(&*store, submission(row("order:2"), &["b"])).await;
    let error = failed(store.commit(looked_at("order:0", Item::Submit(new.clone()))).await.pop().unwrap());
    assert_eq!(error.kind, Kind::Unavailable, "{error}");
    assert!(matches!(submit(&*store, new).await, Submitted::Created(_)));
}

/// It holds locks on the sagas that it was about to write, and would hold them for as long as a session may.
#[tokio::test]
async fn what_a_node_had_locked_when_it_stopped_is_taken_over_all_the_same() {
    let server = Postgres::start().unwrap();
    let way = Way::to(server.port()).await;
    let (stopped, other) = (open(&way.url()).await, open(&server.url()).await);
    let (lease, others) = (join(&*other, "stopped").await, join(&*other, "other").await);
    let rowid = create(&*stopped, submission(row("order:1").owned(&lease), &[])).await;
    way.hold_answer_to("BEGIN");
    let parked = Some(row("order:1").due(now()));
    let item = Item::Advance(Advance { row: parked, ..advance("order:1", rowid, 1, 1) });
    let writing = tokio::spawn(async move { stopped.commit(looked_at("order:1", item)).await });
    let until = within();
    while server.ask("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'").unwrap()
        != "1"
    {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.leave(&lease).await.unwrap();
    let began = Instant::now();
    loop {
        let taken = other.take_over(&others, now(), 10).await.unwrap();
        if !taken.is_empty() {
            break;
        }
        // A lease lasts half as long, and a statement may take longer: what ended the session is that it did nothing.
        assert!(began.elapsed() < Duration::from_secs(25), "its locks outlive its lease");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!writing.is_finished(), "its session ended for another reason");
    writing.abort();
}

/// A session whose client is gone goes on with what it has read: until it is over, nobody can say what it wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_still_runs_after_its_connection_was_cut_is_ended_before_it_is_told() {
    let server = Postgres::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let moved = Advance { nonce: 99, ..advance("order:1", rowid, 1, 1) };
    let item = Item::Advance(moved.clone());
    let batches = [
        (vec![item.clone()], "SELECT amends.commit_expected%", "1"),
        (looked_at("order:1", item), "INSERT INTO amends.entry%", "2"),
    ];
    for (nth, (batch, statement, ended)) in batches.into_iter().enumerate() {
        // A statement that is not yet prepared waits before it has begun.
        let other = submission(row(&format!("order:{}", nth + 2)), &[]);
        let prepared = store.commit(looked_at("order:1", Item::Submit(other))).await;
        assert!(matches!(prepared[1], Outcome::Submitted(Submitted::Created(_))), "{prepared:?}");
        client.batch_execute("BEGIN; LOCK TABLE amends.entry IN EXCLUSIVE MODE").await.unwrap();
        let committing = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.commit(batch).await.pop().unwrap() }
        });
        // Asked in a session of its own: a transaction sees the same activity all along.
        let waits = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '{statement}'"
        );
        let until = within();
        while server.ask(&waits).unwrap() == "0" {
            assert!(Instant::now() < until);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        way.cut();
        let error = failed(committing.await.unwrap());
        assert_eq!(error.kind, Kind::Indeterminate, "{error}");

        let told = store.wrote(&moved.id, 2, 99).await;
        assert!(told.as_ref().is_err_and(|error| error.kind == Kind::Unavailable), "{told:?}");
        let until = within();
        while store.wrote(&moved.id, 2, 99).await.is_err() {
            assert!(Instant::now() < until);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // It was ended, rather than left to some limit of the server.
        let killed = "SELECT sessions_killed FROM pg_stat_database WHERE datname = current_database()";
        let until = within();
        while server.ask(killed).unwrap() != ended {
            assert!(Instant::now() < until);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.batch_execute("COMMIT").await.unwrap();
        // Now that it is told, nothing comes any more.
        assert_eq!(store.wrote(&moved.id, 2, 99).await.unwrap(), None);
    }
    assert_eq!(step(&*store, moved).await, Advanced::Committed);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_said_to_and_comes_back() {
    let server = Postgres::start().unwrap();
    let store = open(&server.url()).await;
    let lease = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1").owned(&lease), &["a"])).await;
    // As a server does whose fail-over is not over. It takes effect in sessions that are there, as soon as they see it.
    let set = |value: &str| {
        server.ask(&format!("ALTER SYSTEM SET default_transaction_read_only = {value}")).unwrap();
        server.ask("SELECT pg_reload_conf()").unwrap();
    };
    set("on");
    let until = within();
    let error = loop {
        match commit(&*store, Item::Submit(submission(row("order:2"), &[]))).await {
            Outcome::Failed(error) => break error,
            Outcome::Submitted(_) | Outcome::Advanced(_) => assert!(Instant::now() < until),
        }
    };
    assert_eq!(error.kind, Kind::Unwritable);
    assert!(error.message.contains("replica"), "{error}");
    assert_eq!(store.health().unwrap_err().kind, Kind::Unwritable);
    assert!(store.claim_due(&lease, now(), 1).await.is_err());
    assert!(store.load(&id("order:1")).await.unwrap().is_some(), "reads go on");
    set("off");
    let until = within();
    while store.health().is_err() {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(step(&*store, end("order:1", rowid, 1, now())).await, Advanced::Committed);
    assert_eq!(server.ask("SELECT count(*) FROM amends.probe").unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_what_is_due_and_what_lapsed() {
    let server = Postgres::start().unwrap();
    let stores: [Arc<dyn Store>; 2] = [open(&server.url()).await, open(&server.url()).await];
    crossing::two_nodes_share_what_is_due_and_what_lapsed(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_nodes_that_cross_are_each_decided() {
    let server = Postgres::start().unwrap();
    let stores: [Arc<dyn Store>; 2] = [open(&server.url()).await, open(&server.url()).await];
    crossing::batches_of_two_nodes_that_cross_are_each_decided(stores).await;
    let orphans = "SELECT count(*) FROM amends.claim c LEFT JOIN amends.saga s ON s.rowid = c.saga WHERE s.rowid IS NULL";
    assert_eq!(server.ask(orphans).unwrap(), "0");
}
