//! Sagas that are undone, and outcomes that are not known.

use amends_core::{OpKind, Status};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_refusal_undoes_what_was_done_in_reverse_order() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("confirm", [Does::Refuses]);
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Compensated);
    assert_eq!(
        world.participants.effects(),
        ["reserve action", "charge action", "charge compensation", "reserve compensation"]
    );
    assert_eq!(world.row("o1").await.business_state, "CANCELED");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_asked_about_and_not_sent_again() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksSilently]);
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Completed);
    let charge: Vec<_> =
        world.participants.calls().into_iter().filter(|call| call.starts_with("charge")).collect();
    assert_eq!(charge, ["charge action", "charge action?"]);
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_query_has_never_seen_is_sent_again_under_the_same_key() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::NeverGets]);
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Completed);
    let charge: Vec<_> =
        world.participants.calls().into_iter().filter(|call| call.starts_with("charge")).collect();
    assert!(charge.len() >= 3 && charge[1] == "charge action?", "{charge:?}");
    assert_eq!(charge.last().map(String::as_str), Some("charge action"));
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_busy_participant_is_tried_again_without_leaving_memory() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("reserve", [Does::IsBusy]);
    let before = world.store.loads.load(std::sync::atomic::Ordering::SeqCst);
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(
        world.store.loads.load(std::sync::atomic::Ordering::SeqCst),
        before,
        "a wait of a second is a timer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_settled_becomes_dead_in_the_end() {
    let world = World::new();
    let engine = world.engine_for(FAX).await;
    world.participants.next("send", [Does::NeverGets]);
    let saga = run(&engine, start("fax", "f", json!({ "text": "hello" }))).await;
    assert_eq!(status_of(&saga), Status::Unknown);
    dead(&engine, "f").await;
    until("it is parked", async || world.row("f").await.owner.is_none()).await;
    let row = world.row("f").await;
    assert_eq!(
        (row.status.as_str(), row.step.as_deref(), row.operation.as_deref()),
        ("dead", Some("send"), Some("action"))
    );
    assert!(row.reason.is_some() && row.owner.is_none());
    assert_eq!(engine.dead_groups(10).await.expect("groups")[0].count, 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_is_seen_in_lists_also_while_it_stays_in_memory() {
    let world = World::new();
    let query = "query = { get = \"/charges/${key}\" }";
    let often = "on_unknown = { verify = [\"1s\"], verify_for = \"5m\" }";
    let engine = world.engine_for(&ORDER.replace(query, &format!("{query}\n{often}"))).await;
    world.participants.next("charge", std::iter::repeat_n(Does::NeverGets, 40));
    world.participants.next_of("charge", OpKind::Action, true, std::iter::repeat_n(Does::NeverGets, 40));
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Unknown);
    let row = world.row("o1").await;
    assert_eq!((row.status.as_str(), row.owner.is_some()), ("unknown", true));
    until("it is settled", async || world.row("o1").await.status == "completed").await;
}

#[tokio::test(start_paused = true)]
async fn a_first_send_that_is_held_back_is_visible_and_then_sent() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::HeldBack]);
    submit(&engine, order("o1")).await;
    until("it is held", async || world.kinds("o1").await.contains(&"held")).await;
    let saga = rest(&engine, "o1").await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(saga.steps[1].action.attempts, 1, "no attempt is used by an open breaker");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_held_back_is_one_without_an_answer() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::WorksSilently]);
    world.participants.next_of("charge", OpKind::Action, true, [Does::HeldBack]);
    let saga = run(&engine, order("o1")).await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert!(world.participants.doubled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_configuration_fault_parks_and_goes_on_when_it_is_cured() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    world.participants.next("charge", [Does::Misconfigured]);
    submit(&engine, order("o1")).await;
    until("it is parked", async || world.row("o1").await.owner.is_none()).await;
    let row = world.row("o1").await;
    assert_eq!((row.status.as_str(), row.step.as_deref()), ("running", Some("charge")));
    assert!(row.due_at.is_some() && row.reason.is_some_and(|reason| reason.contains("amends.toml")));
    assert_eq!(engine.gauges().sagas, 0);
    assert_eq!(status_of(&rest(&engine, "o1").await), Status::Completed);
}
