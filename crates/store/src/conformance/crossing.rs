//! Two nodes on one store, each with connections of its own. For stores that machines can share: their tests open it twice.

use std::sync::Arc;

use super::samples::*;
use crate::{Advance, Advanced, Item, Outcome, Store, Submission, Submitted};

/// Each saga that is due, or whose owner is gone, becomes one node's.
pub async fn two_nodes_share_what_is_due_and_what_lapsed(stores: [Arc<dyn Store>; 2]) {
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

/// Batches over the same sagas in opposite orders: none waits for ever, and each entry is one node's.
pub async fn batches_of_two_nodes_that_cross_are_each_decided(stores: [Arc<dyn Store>; 2]) {
    const SAGAS: u64 = 20;
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
}
