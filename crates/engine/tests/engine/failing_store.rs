//! A store that fails and recovers.

use std::time::Duration;

use amends_core::Status;
use amends_engine::Refused;
use amends_store::Kind;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn nothing_goes_on_unwritten_and_nothing_acknowledged_is_lost() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("reserve", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;

    world.store.set_down(true);
    let health = engine.health();
    assert!(!health.writable && !health.is_ready() && health.reasons == ["the store is down"]);
    let refused = engine.submit(order("o2")).await.expect_err("not now");
    assert!(matches!(&refused, Refused::Store(error) if error.kind == Kind::Unavailable), "{refused:?}");
    // Less than the lease lasts: the saga waits in memory for its commit.
    let before = world.store.commits();
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(
        world.participants.effects(),
        ["reserve action"],
        "its answer is not durable, so nothing follows"
    );
    assert!(world.store.commits() - before < 20, "no hot loop: {}", world.store.commits() - before);

    world.store.set_down(false);
    assert!(engine.health().is_ready());
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert!(world.participants.doubled().is_empty());
    assert_eq!(world.kinds("o1").await, ["submitted", "answered", "answered", "answered", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_for_longer_than_the_lease_ends_it_and_the_node_joins_anew() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("reserve", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.store.set_down(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!engine.health().lease);
    assert_eq!(engine.gauges().sagas, 0, "nothing is acted on without a lease");

    world.store.set_down(false);
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert!(engine.health().is_ready());
    assert!(world.participants.doubled().is_empty());
    assert!(world.kinds("o1").await.contains(&"taken_over"));
    assert_eq!(engine.metrics().lease_lapses, 1);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_is_due_while_the_store_was_down_is_worked_off() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("reserve", std::iter::repeat_n(Does::Misconfigured, 30));
    for n in 0..30 {
        submit(&engine, order(&format!("o{n}"))).await;
    }
    until("all are parked", async || engine.gauges().sagas == 0).await;
    world.store.set_down(true);
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.store.set_down(false);
    for n in 0..30 {
        assert_eq!(status_of(&rest(&engine, &format!("o{n}")).await), Status::Completed);
    }
}
