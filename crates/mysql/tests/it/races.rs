//! Two nodes at once, and strangers that lock what a store wants.

use std::sync::Arc;

use amends_store::conformance::samples::*;
use amends_store::{
    Advance, Advanced, Item, Journal as _, Mailbox as _, Nodes as _, Outcome, Submission, Submitted,
    Work as _,
};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_what_is_due_and_what_lapsed() {
    let server = MariaDb::start().unwrap();
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let gone = join(&*stores[0], "gone").await;
    let rows = (0..300).map(|nth| {
        let text = format!("order:{nth}");
        let row = if nth % 2 == 0 { row(&text).due(in_ms(-10)) } else { row(&text).owned(&gone) };
        Item::Submit(submission(row, &[]))
    });
    stores[0].commit(rows.collect()).await;
    stores[0].leave(&gone).await.unwrap();
    let mut nodes = Vec::new();
    for (nth, store) in stores.iter().enumerate() {
        let lease = join(&**store, &format!("n{nth}")).await;
        let store = Arc::clone(store);
        nodes.push(tokio::spawn(async move {
            let mut got = Vec::new();
            loop {
                let due = store.claim_due(&lease, now(), 7).await.unwrap();
                let taken = store.take_over(&lease, now(), 7).await.unwrap();
                if due.is_empty() && taken.is_empty() {
                    return got;
                }
                got.extend(due.into_iter().chain(taken).map(|due| due.id.to_string()));
            }
        }));
    }
    let mut all = Vec::new();
    for node in nodes {
        all.extend(node.await.unwrap());
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((count, all.len()), (300, 300));
}

/// Whichever of the two comes first: who lets a saga go sees its mail, or who posts sees that it is nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_posted_while_its_saga_is_let_go_wakes_it() {
    let server = MariaDb::start().unwrap();
    let store = open(&server.url()).await;
    let lease = join(&*store, "n1").await;
    for nth in 0..100 {
        let text = format!("order:{nth}");
        let rowid = create(&*store, submission(row(&text).owned(&lease), &[])).await;
        let let_go = Advance { row: Some(row(&text)), ..advance(&text, rowid, 1, 1) };
        let letting = tokio::spawn({
            let store = Arc::clone(&store);
            async move { step(&*store, let_go).await }
        });
        store.post(&id(&text), "input", b"stop", now()).await.unwrap().unwrap();
        assert_eq!(letting.await.unwrap(), Advanced::Committed);
        let row = load(&*store, &text).await.row;
        assert!(row.owner.is_none() && row.due_at.is_some(), "{row:?}");
    }
}

/// Batches over the same sagas in opposite orders, from two nodes: none waits for ever, and each entry is one node's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_nodes_that_cross_are_each_decided() {
    const SAGAS: u64 = 20;
    let server = MariaDb::start().unwrap();
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let mut rowids = Vec::new();
    for nth in 0..SAGAS {
        rowids.push(create(&*stores[0], submission(row(&format!("order:{nth}")), &[])).await);
    }
    for after in 1..=20 {
        let racing = stores.iter().enumerate().map(|(node, store)| {
            let mut batch: Vec<Item> = (0..)
                .zip(&rowids)
                .map(|(nth, rowid): (u64, &u64)| {
                    let moved = advance(&format!("order:{nth}"), *rowid, after, 1);
                    Item::Advance(Advance { nonce: node as u64, ..moved })
                })
                .collect();
            // New sagas and claims that both want, too.
            batch.extend((0..5).map(|nth| {
                let text = format!("new:{after}:{nth}");
                let new = submission(row(&text), &[&format!("{after}:{}", (nth + node) % 5)]);
                Item::Submit(Submission { nonce: node as u64, fingerprint: node.to_string(), ..new })
            }));
            if node == 1 {
                batch.reverse();
            }
            let store = Arc::clone(store);
            tokio::spawn(async move { store.commit(batch).await })
        });
        let racing: Vec<_> = racing.collect();
        let (mut moved, mut created) = (0, 0);
        for outcomes in racing {
            for outcome in outcomes.await.unwrap() {
                match outcome {
                    Outcome::Advanced(Advanced::Committed) => moved += 1,
                    Outcome::Submitted(Submitted::Created(_)) => created += 1,
                    Outcome::Advanced(Advanced::Conflict)
                    | Outcome::Submitted(Submitted::Different | Submitted::Held(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(moved, SAGAS, "round {after}");
        assert!((1..=5).contains(&created), "round {after}: {created}");
    }
    let orphans = "SELECT COUNT(*) FROM amends_claim c LEFT JOIN amends_saga s ON s.rowid = c.saga WHERE s.rowid IS NULL";
    assert_eq!(server.ask(orphans).unwrap(), "0");
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
