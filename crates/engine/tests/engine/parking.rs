//! What waits for long is in the store, not in memory.

use std::sync::atomic::Ordering;
use std::time::Duration;

use amends_core::{Status, Time};
use amends_store::{Item, Journal as _, Lists as _, Row, StoredEntry, Submission};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_long_is_parked_and_comes_back_when_it_is_due() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Accepts]);
    world.participants.next_of(
        "charge",
        amends_core::OpKind::Action,
        true,
        std::iter::repeat_n(Does::Accepts, 3),
    );
    submit(&engine, order("o1")).await;
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    let row = world.row("o1").await;
    assert!(row.due_at.is_some_and(|due| due > world.now()));
    assert_eq!(engine.gauges().sagas, 0);
    // It comes back on time, although nobody told it: its own timer did.
    let due = row.due_at.expect("due");
    let asked = async || world.participants.calls().contains(&"charge action?".to_owned());
    until("it is back", asked).await;
    assert!(world.now() <= due.plus_ms(50), "late: {:?} after {due:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn parked_under_one_lease_it_needs_no_take_over() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Misconfigured]);
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(
        world.kinds("o1").await,
        ["submitted", "answered", "answered", "sending", "answered", "answered", "completed"]
    );
}

/// Puts sagas into the store that are not due for a long time, made of one that is stored.
async fn plant(world: &World, like: &str, n: usize, due: Time) {
    let (row, entries) = (world.row(like).await, world.journal(like).await);
    for chunk in (0..n).collect::<Vec<_>>().chunks(1_000) {
        let items = chunk.iter().map(|n| {
            let id = saga_id(&format!("planted-{n}"));
            let first = String::from_utf8(entries[0].body.clone()).expect("JSON").replace(like, id.as_str());
            let first = StoredEntry { body: first.into_bytes(), ..entries[0].clone() };
            Item::Submit(Submission {
                row: Row { id, rowid: 0, owner: None, due_at: Some(due), ended_at: None, ..row.clone() },
                entries: vec![first],
                claims: Vec::new(),
                fingerprint: "planted".into(),
                nonce: *n as u64 + 1,
            })
        });
        world.memory.commit(items.collect()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_parked_sagas_cost_neither_memory_nor_work() {
    let world = World::new();
    let engine = world.engine_for(FAX).await;
    run(&engine, start("fax", "like", json!({ "text": "a" }))).await;
    plant(&world, "like", 100_000, world.now().plus_ms(3_600_000)).await;
    assert_eq!(world.memory.stats(world.now()).await.expect("memory answers").due, 0);

    let before = (
        world.store.claims.load(Ordering::SeqCst),
        world.store.loads.load(Ordering::SeqCst),
        world.store.commits(),
    );
    let mut most = 0;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        most = most.max(engine.gauges().sagas);
    }
    let after = (
        world.store.claims.load(Ordering::SeqCst),
        world.store.loads.load(Ordering::SeqCst),
        world.store.commits(),
    );
    assert_eq!((most, before), (0, after), "nothing is claimed, read or written");
    run(&engine, start("fax", "another", json!({ "text": "b" }))).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_due_comes_back_in_batches_and_ends() {
    let world = World::new();
    let engine = world.engine_for(FAX).await;
    run(&engine, start("fax", "like", json!({ "text": "a" }))).await;
    plant(&world, "like", 1_000, world.now().plus_ms(60_000)).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    until("all have ended", async || {
        world.memory.stats(world.now()).await.expect("memory answers").ended
            == [("completed".to_owned(), 1_001)]
    })
    .await;
    assert_eq!(world.participants.effects().len(), 1_001);
}
