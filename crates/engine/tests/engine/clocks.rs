//! A wall clock that is set while sagas run.

use std::time::Duration;

use amends_core::{Direction, Status};

use crate::support::*;

const HOUR_MS: i64 = 3_600_000;

#[tokio::test(start_paused = true)]
async fn set_forward_it_makes_no_deadline_pass_and_no_lease_lapse() {
    let world = World::new();
    let definition = ORDER.replace("version = 1", "version = 1\ndeadline = \"30m\"");
    let engine = world.engine_for(&definition).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(2))]);
    world.participants.next("confirm", [Does::IsBusy, Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    world.clock.set(HOUR_MS);
    let saga = rest(&engine, "o1").await;
    assert_eq!((status_of(&saga), saga.direction), (Status::Completed, Direction::Forward));
    assert_eq!(engine.metrics().lease_lapses, 0);
}

#[tokio::test(start_paused = true)]
async fn set_back_it_makes_no_retry_wait_for_an_hour() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::IsBusy, Does::IsBusy]);
    world.participants.next("confirm", [Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    world.clock.set(-HOUR_MS);
    let began = tokio::time::Instant::now();
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Completed);
    // Two retries and a minute of parking, at half the speed at worst.
    assert!(began.elapsed() < Duration::from_secs(180), "{:?}", began.elapsed());
    assert_eq!(engine.metrics().lease_lapses, 0);
}
