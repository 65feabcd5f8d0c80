//! Leases and take-over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::samples::*;
use crate::{Advance, Advanced, NodeLease, Store};

/// Each lease has a larger epoch than all before it, of whichever node.
pub async fn epochs_grow_over_all_nodes(store: Arc<dyn Store>) {
    let mut epochs = Vec::new();
    for node in ["n1", "n2", "n1", "n3", "n1"] {
        let lease = join(&*store, node).await;
        assert_eq!(lease.node, node);
        assert!(lease.expires_at > now());
        epochs.push(lease.epoch);
        store.leave(&lease).await.unwrap();
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

/// A lease is prolonged while it is its node's last, and not after it was left.
pub async fn a_lease_is_renewed_until_it_ends(store: Arc<dyn Store>) {
    let first = store.join("n1", 60_000, now()).await.unwrap();
    let renewed = store.renew(&first, TTL_MS, now()).await.unwrap().expect("it is alive");
    assert!(renewed.expires_at > first.expires_at);
    assert_eq!((renewed.node.as_str(), renewed.epoch), ("n1", first.epoch));

    let second = join(&*store, "n1").await;
    assert_eq!(store.renew(&renewed, TTL_MS, now()).await.unwrap(), None);
    // Leaving late ends nobody else's lease.
    store.leave(&first).await.unwrap();
    assert!(store.renew(&second, TTL_MS, now()).await.unwrap().is_some());
    store.leave(&second).await.unwrap();
    assert_eq!(store.renew(&second, TTL_MS, now()).await.unwrap(), None);
    store.leave(&second).await.unwrap();
}

/// Not renewed in time, it is over, and what its node owned is taken over.
pub async fn a_lease_lapses_with_time(store: Arc<dyn Store>) {
    let short = store.join("n1", 20, now()).await.unwrap();
    let other = join(&*store, "n2").await;
    create(&*store, submission(row("order:1").owned(&short), &[])).await;
    let taken = take_over_within_seconds(&*store, &other).await;
    assert_eq!(taken, ["order:1"]);
    assert_eq!(store.renew(&short, TTL_MS, now()).await.unwrap(), None);
}

/// Asks until there is something, for as long as a very slow machine may need.
async fn take_over_within_seconds(store: &dyn Store, lease: &NodeLease) -> Vec<String> {
    for _ in 0..3_000 {
        let taken = take_over(store, lease, 10).await;
        if !taken.is_empty() {
            return taken;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Vec::new()
}

async fn take_over(store: &dyn Store, lease: &NodeLease, limit: usize) -> Vec<String> {
    let taken = store.take_over(lease, now(), limit).await.expect("the store answers");
    taken.into_iter().map(|due| due.id.to_string()).collect()
}

/// Neither those of others that are alive, nor its own, nor nobody's.
pub async fn a_live_nodes_sagas_are_not_taken_over(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    create(&*store, submission(row("one").owned(&one), &[])).await;
    create(&*store, submission(row("two").owned(&two), &[])).await;
    create(&*store, submission(row("nobody").due(in_ms(-10)), &[])).await;
    assert_eq!(take_over(&*store, &two, 10).await, Vec::<String>::new());
}

/// As many as asked for at a time, each once, until none is left.
pub async fn sagas_are_taken_over_in_batches(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    for nth in 0..10 {
        create(&*store, submission(row(&format!("order:{nth}")).owned(&one), &[])).await;
    }
    store.leave(&one).await.unwrap();
    let (mut sizes, mut taken) = (Vec::new(), HashSet::new());
    loop {
        let batch = take_over(&*store, &two, 4).await;
        sizes.push(batch.len());
        if batch.is_empty() {
            break;
        }
        taken.extend(batch);
    }
    assert_eq!(sizes, [4, 4, 2, 0]);
    assert_eq!(taken.len(), 10);
    let owner = load(&*store, "order:3").await.row.owner;
    assert_eq!(owner, Some(("n2".to_owned(), two.epoch)));
}

/// A node that starts again finds what it owned before, without waiting for its old lease.
pub async fn earlier_epochs_of_a_node_are_taken_over(store: Arc<dyn Store>) {
    let first = join(&*store, "n1").await;
    create(&*store, submission(row("order:1").owned(&first), &[])).await;
    let second = join(&*store, "n1").await;
    create(&*store, submission(row("order:2").owned(&second), &[])).await;
    let third = join(&*store, "n1").await;
    assert_eq!(take_over(&*store, &third, 10).await, ["order:1", "order:2"]);
    assert_eq!(take_over(&*store, &third, 10).await, Vec::<String>::new());
}

/// Once the new owner has written, nothing the former one decided can be written any more.
pub async fn a_former_owner_is_fenced(store: Arc<dyn Store>) {
    let former = join(&*store, "n1").await;
    let rowid = create(&*store, submission(row("order:1").owned(&former), &["a"])).await;
    store.leave(&former).await.unwrap();
    let owner = join(&*store, "n2").await;
    assert_eq!(take_over(&*store, &owner, 10).await, ["order:1"]);
    let taken_over =
        Advance { row: Some(row("order:1").owned(&owner)), nonce: 2, ..advance("order:1", rowid, 1, 1) };
    assert_eq!(step(&*store, taken_over).await, Advanced::Committed);

    assert_eq!(step(&*store, advance("order:1", rowid, 1, 1)).await, Advanced::Conflict);
    assert_eq!(step(&*store, end("order:1", rowid, 1, now())).await, Advanced::Conflict);
    let row_only = Advance { row: Some(row("order:1").owned(&former)), ..advance("order:1", rowid, 1, 0) };
    assert_eq!(step(&*store, row_only).await, Advanced::Conflict);
    assert_eq!(load(&*store, "order:1").await.row.owner, Some(("n2".to_owned(), owner.epoch)));
    assert_eq!(store.wrote(&id("order:1"), 2, 2).await.unwrap(), Some(true));
    assert_eq!(step(&*store, advance("order:1", rowid, 2, 1)).await, Advanced::Committed);
}

/// The same for one saga that somebody asks for.
pub async fn one_saga_of_a_lapsed_node_can_be_claimed(store: Arc<dyn Store>) {
    let (one, two) = (join(&*store, "n1").await, join(&*store, "n2").await);
    create(&*store, submission(row("order:1").owned(&one), &[])).await;
    assert!(!store.claim(&two, &id("order:1"), now()).await.unwrap());
    store.leave(&one).await.unwrap();
    assert!(store.claim(&two, &id("order:1"), now()).await.unwrap());
    assert_eq!(load(&*store, "order:1").await.row.owner, Some(("n2".to_owned(), two.epoch)));
}
