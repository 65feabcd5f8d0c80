//! Waiting for a saga never misses its end.

use std::time::Duration;

use amends_core::Status;
use amends_engine::Refused;
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn every_waiter_is_told_however_late_it_comes() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    submit(&engine, order("o1")).await;
    let began = world.now();
    let waiters: Vec<_> = (0..40_u64)
        .map(|ms| {
            let engine = engine.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(ms * 250)).await;
                rest(&engine, "o1").await
            })
        })
        .collect();
    for waiter in waiters {
        assert_eq!(status_of(&waiter.await.expect("no panic")), Status::Completed);
    }
    assert!(world.now() < began.plus_ms(100), "told, not polled");
    assert_eq!(engine.gauges().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_time_and_leaves_nothing_behind() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("reserve", [Does::WorksAfter(Duration::from_millis(2_900))]);
    submit(&engine, order("o1")).await;
    let view = engine.wait(&saga_id("o1"), Duration::from_millis(500)).await;
    assert_eq!(status_of(&whole(view)), Status::Running);
    assert_eq!(engine.gauges().waiters, 0);
    let unknown = engine.wait(&saga_id("o2"), LONG).await.expect_err("unknown");
    assert!(matches!(unknown, Refused::UnknownSaga(_)));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_stays_while_the_saga_parks_and_comes_back() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { rest(&engine, "o1").await }
    });
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    assert_eq!(status_of(&waiter.await.expect("no panic")), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_of_unknown_and_of_dead() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", std::iter::repeat_n(Does::NeverGets, 200));
    world.participants.next_of(
        "charge",
        amends_core::OpKind::Action,
        true,
        std::iter::repeat_n(Does::NeverGets, 400),
    );
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Unknown);
    until("its row says so", async || world.row("o1").await.status == "unknown").await;

    register(&engine, FAX).await;
    world.participants.next("send", [Does::NeverGets]);
    run(&engine, start("fax", "f", json!({ "text": "a" }))).await;
    dead(&engine, "f").await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_although_another_node_took_the_saga_over() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_millis(2_900))]);
    submit(&engine, order("o1")).await;
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { (rest(&engine, "o1").await, tokio::time::Instant::now()) }
    });
    until("it is charging", async || world.participants.calls().len() == 2).await;
    world.clock.suspend(60_000);
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    let saga = rest(&other, "o1").await;
    let ended = tokio::time::Instant::now();
    assert_eq!(status_of(&saga), Status::Completed);
    let (saga, told) = waiter.await.expect("no panic");
    assert_eq!(status_of(&saga), Status::Completed);
    assert!(told < ended + Duration::from_secs(2), "found by looking, not at the end of its time");
}
