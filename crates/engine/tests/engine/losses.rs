//! The store lost what it had acknowledged, and people accepted that.

use std::time::Duration;

use amends_core::{By, Person, PersonAction, Status};
use amends_store::Loss;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn after_a_loss_nothing_is_sent_before_people_have_looked_and_then_under_the_same_key() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    engine.crash();
    *world.store.loss.lock().unwrap() = Some(Loss { number: 2, rowid_max: 1 });

    let engine = world.engine().await;
    let saga = dead(&engine, "o1").await;
    assert_eq!((saga.loss, status_of(&saga)), (2, Status::Dead));
    let kinds = world.kinds("o1").await;
    assert!(kinds.ends_with(&["taken_over", "lost", "stuck"]), "{kinds:?}");
    assert_eq!(world.participants.calls().len(), 2, "{:?}", world.participants.calls());

    // Taken over once more, it is not asked twice.
    engine.crash();
    let engine = world.engine().await;
    let saga = dead(&engine, "o1").await;
    assert_eq!(world.kinds("o1").await.iter().filter(|kind| **kind == "lost").count(), 1);
    let retry = PersonAction::Retry { step: "charge".into(), operation: None, force: false, new_key: false };
    let by = By { who: "ann".into(), reason: "its participants know nothing of a cancel".into() };
    engine.act(&saga_id("o1"), Person { by, version: Some(saga.seq), action: retry }).await.expect("retried");
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(world.participants.effects(), ["reserve action", "charge action", "confirm action"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_after_a_loss_goes_on() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    run(&engine, order("o1")).await;
    *world.store.loss.lock().unwrap() = Some(Loss { number: 2, rowid_max: 1 });
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o2")).await;
    until("it is charging", async || world.participants.calls().len() == 5).await;
    engine.crash();
    let engine = world.engine().await;
    assert_eq!(status_of(&rest(&engine, "o2").await), Status::Completed);
    assert!(!world.kinds("o2").await.contains(&"lost"));
}
