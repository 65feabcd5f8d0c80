//! Two nodes at once, and strangers that lock what a store wants.

use std::sync::Arc;

use amends_store::conformance::crossing;
use amends_store::conformance::samples::*;
use amends_store::{Advance, Advanced, Item, Journal as _, Outcome, Store, Submitted};
use amends_testbed::mariadb::MariaDb;
use mysql_async::prelude::Queryable as _;

use crate::support::{open, stranger, until, waiting};

/// A lock that takes too long undoes its statement alone: what came before it in the transaction must not be committed with what comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_takes_too_long_undoes_the_whole_batch() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let mut stranger = stranger(&server).await;
    stranger
        .query_drop("START TRANSACTION; INSERT INTO amends_claim (name, saga, since) VALUES ('a', 1, 1)")
        .await
        .unwrap();
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { submit(&*store, submission(row("order:1"), &["a"])).await }
    });
    // The saga is inserted before its claim.
    until("the claim is waited for", || waiting(&server, "INSERT INTO amends_claim") > 0).await;
    let timed_out = || server.ask("SHOW GLOBAL STATUS LIKE 'Com_rollback'").unwrap() != "Com_rollback\t0";
    until("the lock took too long", timed_out).await;
    until("it is waited for again", || waiting(&server, "INSERT INTO amends_claim") > 0).await;
    assert_eq!(server.ask("SELECT COUNT(*) FROM amends_saga").unwrap(), "0");
    stranger.query_drop("ROLLBACK").await.unwrap();
    assert!(matches!(committing.await.unwrap(), Submitted::Created(_)));
    assert_eq!(server.ask("SELECT COUNT(*) FROM amends_saga").unwrap(), "1");
    assert_eq!(server.ask("SELECT saga = (SELECT rowid FROM amends_saga) FROM amends_claim").unwrap(), "1");
}

/// The server ends one of two that wait for each other: the store tries again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let mut stranger = stranger(&server).await;
    let (one, two) =
        (create(&*store, submission(row("1"), &[])).await, create(&*store, submission(row("2"), &[])).await);
    // More rows make the stranger's transaction the one that the server keeps.
    stranger.query_drop("START TRANSACTION").await.unwrap();
    let names: Vec<String> = (0..50).map(|nth| format!("('{nth}', 1, 1)")).collect();
    stranger
        .query_drop(format!("INSERT INTO amends_claim (name, saga, since) VALUES {}", names.join(",")))
        .await
        .unwrap();
    stranger.query_drop(format!("SELECT * FROM amends_saga WHERE rowid = {two} FOR UPDATE")).await.unwrap();
    let batch = [(one, "1"), (two, "2")].map(|(rowid, text)| Item::Advance(advance(text, rowid, 1, 1)));
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(batch.to_vec()).await }
    });
    until("the second saga is waited for", || waiting(&server, "ORDER BY s.rowid FOR UPDATE") > 0).await;
    stranger.query_drop(format!("SELECT * FROM amends_saga WHERE rowid = {one} FOR UPDATE")).await.unwrap();
    assert_ne!(server.ask("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").unwrap(), "Innodb_deadlocks\t0");
    stranger.query_drop("ROLLBACK").await.unwrap();
    for outcome in committing.await.unwrap() {
        assert!(matches!(outcome, Outcome::Advanced(Advanced::Committed)), "{outcome:?}");
    }
}

/// No range is locked against what others insert.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_looked_for_is_not_locked_against_insertion() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let lease = join(&*store, "n1").await;
    create(&*store, submission(row("1").due(in_ms(-10)), &[])).await;
    let mut stranger = stranger(&server).await;
    let begin = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
        INSERT INTO amends_epoch (one, value) VALUES (2, 0)";
    stranger.query_drop(begin).await.unwrap();
    assert_eq!(claim_due(&*store, &lease, 10).await, ["1"]);
    let mut batch: Vec<Item> =
        (2..20).map(|nth| Item::Submit(submission(row(&nth.to_string()), &[&nth.to_string()]))).collect();
    batch.push(Item::Submit(submission(row("due").due(in_ms(-10)), &[])));
    for outcome in store.commit(batch).await {
        assert!(matches!(outcome, Outcome::Submitted(Submitted::Created(_))), "{outcome:?}");
    }
    assert_eq!(claim_due(&*store, &lease, 10).await, ["due"]);
    stranger.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(
        server.ask("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'").unwrap(),
        "Innodb_row_lock_waits\t0"
    );
}

/// A batch that waits for one saga has looked at others before: what is committed meanwhile counts all the same, whether the batch would
/// meet it as a duplicate key or, writing no entry, would not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_while_a_batch_waited_is_not_written_over() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let mut stranger = stranger(&server).await;
    for (nth, count) in [1, 0].into_iter().enumerate() {
        let (first, second) = (format!("first:{nth}"), format!("second:{nth}"));
        let one = create(&*store, submission(row(&first), &[])).await;
        let two = create(&*store, submission(row(&second), &[])).await;
        stranger.query_drop("START TRANSACTION").await.unwrap();
        stranger
            .query_drop(format!("SELECT 1 FROM amends_saga WHERE rowid = {two} FOR UPDATE"))
            .await
            .unwrap();
        let batch = vec![
            Item::Advance(advance(&first, one, 1, 1)),
            Item::Advance(Advance {
                row: Some(row(&second).status("late")),
                ..advance(&second, two, 1, count)
            }),
        ];
        let committing = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.commit(batch).await }
        });
        until("the second saga is waited for", || waiting(&server, "ORDER BY s.rowid FOR UPDATE") > 0).await;
        let entry = format!(
            "INSERT INTO amends_entry (saga, seq, nonce, at, keep, body) VALUES ({two}, 2, 5, 1, 0, 'theirs')"
        );
        stranger.query_drop(entry).await.unwrap();
        stranger.query_drop("COMMIT").await.unwrap();
        let outcomes = committing.await.unwrap();
        assert!(matches!(outcomes[0], Outcome::Advanced(Advanced::Committed)), "{outcomes:?}");
        assert!(matches!(outcomes[1], Outcome::Advanced(Advanced::Conflict)), "{count}: {outcomes:?}");
        let stored = load(&*store, &second).await;
        assert_eq!(
            (stored.entries[1].body.as_slice(), stored.row.status.as_str()),
            (&b"theirs"[..], "running")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_what_is_due_and_what_lapsed() {
    let server = MariaDb::start().unwrap();
    let stores: [Arc<dyn Store>; 2] = [open(&server.url()).await, open(&server.url()).await];
    crossing::two_nodes_share_what_is_due_and_what_lapsed(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_nodes_that_cross_are_each_decided() {
    let server = MariaDb::start().unwrap();
    let stores: [Arc<dyn Store>; 2] = [open(&server.url()).await, open(&server.url()).await];
    crossing::batches_of_two_nodes_that_cross_are_each_decided(stores).await;
    let orphans = "SELECT COUNT(*) FROM amends_claim c LEFT JOIN amends_saga s ON s.rowid = c.saga WHERE s.rowid IS NULL";
    assert_eq!(server.ask(orphans).unwrap(), "0");
}
