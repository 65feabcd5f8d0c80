//! People's actions and callbacks, wherever the saga is.

use std::time::Duration;

use amends_core::{By, Evidence, Knowledge, Person, PersonAction, Problem, Status};
use amends_engine::{Engine, Refused};
use serde_json::{Value, json};

use crate::support::*;

fn person(version: Option<u64>, action: PersonAction) -> Person {
    Person { by: By { who: "ann".into(), reason: "the customer called".into() }, version, action }
}

async fn version(engine: &Engine, id: &str) -> Option<u64> {
    Some(whole(engine.saga(&saga_id(id)).await).seq)
}

fn done(fact: Value) -> Evidence {
    Evidence::Done { fact }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_flight_undoes_what_was_done() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    let view = engine.act(&saga_id("o1"), person(None, PersonAction::Cancel)).await;
    assert_eq!(whole(view).direction, amends_core::Direction::Undo);
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Compensated);
    assert_eq!(
        world.participants.effects(),
        ["reserve action", "charge action", "charge compensation", "reserve compensation"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_parked_saga_is_cancelled_at_once() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    let asked = world.now();
    engine.act(&saga_id("o1"), person(None, PersonAction::Cancel)).await.expect("cancelled");
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Compensated);
    assert!(world.now() < asked.plus_ms(1_000), "not when it would have been due");
    assert_eq!(world.participants.effects(), ["reserve action", "reserve compensation"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_saga_is_resolved_by_a_person_and_goes_on() {
    let world = World::new();
    let engine = world.engine_for(FAX).await;
    world.participants.next("send", [Does::NeverGets]);
    run(&engine, start("fax", "f", json!({ "text": "a" }))).await;
    dead(&engine, "f").await;
    until("it is parked", async || world.row("f").await.owner.is_none()).await;

    let resolve =
        || PersonAction::Resolve { step: "send".into(), operation: None, done: Some(json!({ "page": 1 })) };
    let stale = engine.act(&saga_id("f"), person(Some(1), resolve())).await.expect_err("stale");
    assert!(matches!(stale, Refused::Core { problem: Problem::StaleVersion, .. }), "{stale:?}");
    let seen = version(&engine, "f").await;
    let view = engine.act(&saga_id("f"), person(seen, resolve())).await;
    assert_eq!(status_of(&whole(view)), Status::Completed);
    let row = world.row("f").await;
    assert_eq!((row.status.as_str(), row.owner, row.due_at), ("completed", None, None));

    let late =
        engine.act(&saga_id("f"), person(version(&engine, "f").await, resolve())).await.expect_err("ended");
    assert!(matches!(late, Refused::Core { problem: Problem::WrongState, .. }), "{late:?}");
    until("it left memory", async || engine.gauges().sagas == 0).await;
    assert_eq!(world.row("f").await.owner, None, "looking at it did not keep it");
    let unknown = engine.act(&saga_id("g"), person(None, PersonAction::Cancel)).await.expect_err("unknown");
    assert!(matches!(unknown, Refused::UnknownSaga(_)));
}

#[tokio::test(start_paused = true)]
async fn a_callback_settles_what_was_accepted() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Accepts]);
    submit(&engine, order("o1")).await;
    until("it was accepted", async || world.kinds("o1").await.len() == 3).await;
    engine.callback("o1:charge:action", "e1", done(json!({ "serial": 7 }))).await.expect("taken");
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(saga.steps[1].action.fact().map(|(fact, _)| fact), Some(&json!({ "serial": 7 })));
    let before = world.kinds("o1").await;
    for _ in 0..3 {
        engine.callback("o1:charge:action", "e1", done(json!({ "serial": 7 }))).await.expect("taken again");
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.kinds("o1").await, before, "the same again is harmless");
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_comes_while_the_call_is_on_its_way_counts() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksAfter(Duration::from_secs(1))]);
    submit(&engine, order("o1")).await;
    until("it is charging", async || world.participants.calls().len() == 2).await;
    engine.callback("o1:charge:action", "e1", done(json!({ "serial": 2 }))).await.expect("taken");
    assert_eq!(whole(engine.saga(&saga_id("o1")).await).steps[1].action.knowledge(), Knowledge::Done);
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_callback_to_a_parked_saga_is_durable_and_wakes_it() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    engine.callback("o1:charge:action", "e1", done(json!({ "serial": 9 }))).await.expect("taken");
    engine.callback("o1:charge:action", "e1", done(json!({ "serial": 9 }))).await.expect("taken again");
    // Crash right after it was acknowledged: it is not lost.
    engine.crash();
    let engine = world.engine().await;
    until("it was read", async || world.kinds("o1").await.contains(&"settled")).await;
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    assert_eq!(world.participants.effects(), ["reserve action", "confirm action"]);
}

#[tokio::test(start_paused = true)]
async fn a_callback_to_a_parked_saga_is_acted_on_at_once() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    let told = world.now();
    engine.callback("o1:charge:action", "e1", done(json!({ "serial": 9 }))).await.expect("taken");
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
    let done = world.journal("o1").await.last().expect("entries").at;
    assert!(done <= told.plus_ms(100), "{done:?} after {told:?}");
}

#[tokio::test(start_paused = true)]
async fn evidence_against_an_ended_saga_is_recorded_as_a_contradiction() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    run(&engine, order("o1")).await;
    until("it left memory", async || engine.gauges().sagas == 0).await;
    let ended_at = world.row("o1").await.ended_at;
    let refused = Evidence::Rejected { reason: "card stolen".into(), explicit: true };
    engine.callback("o1:charge:action", "e9", refused).await.expect("taken");
    until("it is recorded", async || world.kinds("o1").await.contains(&"contradiction")).await;
    until("it is let go", async || world.row("o1").await.owner.is_none()).await;
    let row = world.row("o1").await;
    assert_eq!((row.status.as_str(), row.contradictions, row.ended_at), ("completed", 1, ended_at));
    assert_eq!(engine.metrics().sagas["order"].contradictions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_callback_for_what_does_not_exist_is_refused() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    run(&engine, order("o1")).await;
    let refused = async |key: &str| engine.callback(key, "e", done(Value::Null)).await.expect_err(key);
    assert!(matches!(refused("o1:charge").await, Refused::Malformed(_)));
    assert!(matches!(refused("o2:charge:action").await, Refused::UnknownSaga(_)));
    assert!(matches!(refused("o1:pack:action").await, Refused::Core { problem: Problem::UnknownStep, .. }));
    assert!(matches!(
        refused("o1:confirm:compensation").await,
        Refused::Core { problem: Problem::UnknownStep, .. }
    ));
}
