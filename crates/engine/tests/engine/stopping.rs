//! Stopping in order.

use std::time::Duration;

use amends_core::Status;
use amends_engine::Refused;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn calls_in_flight_may_end_and_everything_is_handed_over() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop(Duration::from_secs(5)).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let refused = engine.submit(order("o2")).await.expect_err("it stops");
    assert!(matches!(refused, Refused::Overloaded { what: "stopping", .. }), "{refused:?}");
    assert!(engine.health().stopping);
    stopping.await.expect("no panic");

    let row = world.row("o1").await;
    assert_eq!(row.owner, None);
    assert!(row.due_at.is_some_and(|due| due <= world.now()), "due at once: {:?}", row.due_at);
    assert_eq!(world.kinds("o1").await, ["submitted", "answered", "answered"]);
    assert_eq!(world.participants.calls().len(), 2, "nothing new was begun");

    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    let began = world.now();
    assert_eq!(status_of(&rest(&other, "o1").await), Status::Completed);
    assert!(world.now() < began.plus_ms(2_000), "nobody waits for a lease that was ended");
    assert!(world.participants.doubled().is_empty());
}

/// Two chains of two steps, beside each other.
const CHAINS: &str = r#"
saga = "chains"
version = 1

[participants.shop]
idempotency = "replay"

[[step]]
name = "a1"
after = []
effect = "none"
action = { to = "shop", post = "/a1" }
[[step]]
name = "a2"
effect = "none"
action = { to = "shop", post = "/a2" }
[[step]]
name = "b1"
after = []
effect = "none"
action = { to = "shop", post = "/b1" }
[[step]]
name = "b2"
effect = "none"
action = { to = "shop", post = "/b2" }
"#;

#[tokio::test(start_paused = true)]
async fn while_one_call_ends_no_other_is_begun() {
    let world = World::new();
    let engine = world.engine_for(CHAINS).await;
    world.participants.next("a1", [Does::WorksAfter(Duration::from_millis(200))]);
    world.participants.next("b1", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, start("chains", "c", serde_json::json!({}))).await;
    until("both are under way", async || world.participants.calls().len() == 2).await;
    engine.stop(Duration::from_secs(5)).await;
    assert_eq!(world.participants.calls(), ["a1 action", "b1 action"]);
    assert_eq!(world.participants.effects(), ["a1 action", "b1 action"]);
    assert_eq!(world.row("c").await.owner, None);
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    assert_eq!(status_of(&rest(&other, "c").await), Status::Completed);
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_taken_over_as_after_a_crash() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksSilently]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    engine.stop(Duration::from_millis(100)).await;
    assert!(world.row("o1").await.owner.is_some());
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    assert_eq!(status_of(&rest(&other, "o1").await), Status::Completed);
    assert!(world.kinds("o1").await.contains(&"taken_over"));
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_engine_does_nothing_more() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    drop(engine);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.participants.effects(), ["reserve action"], "its call ended where it stood");
    assert_eq!(world.kinds("o1").await, ["submitted", "answered"]);
}
