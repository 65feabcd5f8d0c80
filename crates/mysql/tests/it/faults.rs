//! The server killed, out of reach, or taking no writes; answers lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use amends_mysql::MySqlStore;
use amends_store::conformance::samples::*;
use amends_store::{
    Advance, Advanced, Health as _, Item, Journal as _, Kind, Lists as _, Nodes as _, Outcome, Submission,
    Submitted, Work as _,
};
use amends_testbed::mariadb::MariaDb;
use mysql_async::prelude::Queryable as _;

use crate::support::{failed, open, stranger, until, waiting};
use crate::way::Way;

/// What callers were told: created, and not known whether.
type Told = (Vec<Submission>, Vec<Submission>, Vec<Kind>);

/// Submits one saga after the other until told to stop.
async fn submit_on(store: Arc<MySqlStore>, caller: u64, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Told {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_the_server() {
    let mut server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..16)
        .map(|caller| tokio::spawn(submit_on(store.clone(), caller, stop.clone(), done.clone())))
        .collect();
    let some_more = async || {
        let from = done.load(Ordering::SeqCst);
        until("more are created", || done.load(Ordering::SeqCst) >= from + 200).await;
    };
    for _ in 0..2 {
        some_more().await;
        server.kill();
        // Nobody is answered by a dead server, so that somebody has to notice.
        tokio::time::sleep(Duration::from_millis(20)).await;
        server.restart().unwrap();
    }
    some_more().await;
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
    let server = MariaDb::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    create(&*store, submission(row("order:0"), &["z"])).await;
    let new = Submission { nonce: 77, ..submission(row("order:1"), &["a"]) };
    way.lose_answer_to("COMMIT");
    let error = failed(commit(&*store, Item::Submit(new.clone())).await);
    assert_eq!(error.kind, Kind::Indeterminate, "{error}");
    let end = Instant::now() + Duration::from_secs(60);
    let wrote = loop {
        match store.wrote(&new.row.id, 1, 77).await {
            Ok(wrote) => break wrote,
            Err(error) => assert!(error.kind == Kind::Unavailable && Instant::now() < end, "{error}"),
        }
    };
    assert_eq!(wrote, Some(true), "the server had carried it out");
    assert_eq!(submit(&*store, new).await, Submitted::Same);
}

/// A connection that is lost before anything was written leaves no doubt, and one that was idle before is replaced without anybody being told.
#[tokio::test]
async fn an_answer_lost_before_anything_was_written_is_no_doubt() {
    let server = MariaDb::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    create(&*store, submission(row("order:0"), &["z"])).await;
    way.lose_beginning_of_answer_to("START TRANSACTION");
    let new = submission(row("order:1"), &["a"]);
    assert!(matches!(submit(&*store, new).await, Submitted::Created(_)));
    assert!(!way.is_waiting(), "the answer was lost");
    assert_eq!(seqs(&*store, "order:1").await, [1]);
}

/// The server's administrator ends all sessions: the next calls do not notice.
#[tokio::test]
async fn sessions_that_were_ended_while_idle_are_replaced() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let rowid = create(&*store, submission(row("order:1"), &["a"])).await;
    server.ask("KILL USER amends").unwrap();
    assert_eq!(step(&*store, advance("order:1", rowid, 1, 1)).await, Advanced::Committed);
    server.ask("KILL USER amends").unwrap();
    assert_eq!(seqs(&*store, "order:1").await, [1, 2]);
}

/// A session whose client is gone goes on with what it has read: until it is over, nobody can say what it wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_still_runs_after_its_connection_was_cut_is_ended_before_it_is_told() {
    let server = MariaDb::start().unwrap();
    let way = Way::to(server.port()).await;
    let store = open(&way.url()).await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let mut stranger = stranger(&server).await;
    stranger.query_drop("LOCK TABLES amends_entry READ").await.unwrap();

    let moved = Advance { nonce: 99, ..advance("order:1", rowid, 1, 1) };
    let committing = tokio::spawn({
        let (store, moved) = (Arc::clone(&store), moved.clone());
        async move { commit(&*store, Item::Advance(moved)).await }
    });
    until("the commit waits", || waiting(&server, "INSERT INTO amends_entry") > 0).await;
    way.cut();
    assert_eq!(failed(committing.await.unwrap()).kind, Kind::Indeterminate);

    let told = store.wrote(&moved.id, 2, 99).await;
    assert!(told.as_ref().is_err_and(|error| error.kind == Kind::Unavailable), "{told:?}");
    let end = Instant::now() + Duration::from_secs(60);
    while store.wrote(&moved.id, 2, 99).await.is_err() {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It was ended, rather than left to some limit of the server.
    let killed = server.ask("SHOW GLOBAL STATUS LIKE 'Com_kill'").unwrap();
    assert_ne!(killed, "Com_kill\t0");
    stranger.query_drop("UNLOCK TABLES").await.unwrap();
    // Now that it is told, nothing comes any more.
    assert_eq!(store.wrote(&moved.id, 2, 99).await.unwrap(), None);
    assert_eq!(step(&*store, moved).await, Advanced::Committed);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_said_to_and_comes_back() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let lease = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1").owned(&lease), &["a"])).await;
    // As a server does whose fail-over is not over.
    server.ask("SET GLOBAL read_only = 1").unwrap();
    let error = failed(commit(&*store, Item::Submit(submission(row("order:2"), &[]))).await);
    assert_eq!(error.kind, Kind::Unwritable);
    assert!(error.message.contains("replica"), "{error}");
    assert_eq!(store.health().unwrap_err().kind, Kind::Unwritable);
    assert!(store.claim_due(&lease, now(), 1).await.is_err());
    assert!(store.load(&id("order:1")).await.unwrap().is_some(), "reads go on");
    server.ask("SET GLOBAL read_only = 0").unwrap();
    until("the store takes work again", || store.health().is_ok()).await;
    assert_eq!(step(&*store, end("order:1", rowid, 1, now())).await, Advanced::Committed);
    assert_eq!(server.ask("SELECT COUNT(*) FROM amends_probe").unwrap(), "0");
    store.leave(&lease).await.unwrap();
}

#[tokio::test]
async fn an_item_that_the_server_would_not_take_at_once_is_refused_and_others_are_not() {
    let server = MariaDb::with(&[("max-allowed-packet", "4M")]).unwrap();
    let store = open(&server.url()).await;
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    let with = |seq: u64, bytes: usize| {
        let mut moved = advance("order:1", rowid, seq, 1);
        moved.entries[0].body = vec![b'x'; bytes];
        moved
    };
    let error = failed(commit(&*store, Item::Advance(with(1, 4 << 20))).await);
    assert!(error.kind == Kind::Refused && error.message.contains("max_allowed_packet"), "{error}");
    // Five bodies of a mebibyte do not go at once, but all the same as one.
    let batch: Vec<Item> = (1..=5).map(|seq| Item::Advance(with(seq, 1 << 20))).collect();
    for outcome in store.commit(batch).await {
        assert!(matches!(outcome, Outcome::Advanced(Advanced::Committed)), "{outcome:?}");
    }
    assert_eq!(seqs(&*store, "order:1").await, [1, 2, 3, 4, 5, 6]);
}
