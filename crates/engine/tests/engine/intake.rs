//! Sagas that callers began in SQL transactions of their own: taken up, once each, whatever happens in between.

use std::time::Duration;

use amends_core::Status;
use amends_engine::{Engine, Refused};
use amends_store::{Intake as _, Journal as _};
use serde_json::json;

use crate::support::*;

const SEAT_1A: &str = r#"{"seat":"1A"}"#;

async fn settled(world: &World) {
    until("nothing waits", async || world.memory.backlog().await.expect("memory answers").waiting == 0).await;
}

/// Waits until it is a saga, and rests.
async fn came(world: &World, engine: &Engine, id: &str) -> std::sync::Arc<amends_core::Saga> {
    let is_there = async || world.memory.load(&saga_id(id)).await.is_ok_and(|saga| saga.is_some());
    until("it is a saga", is_there).await;
    rest(engine, id).await
}

fn gauge(engine: &Engine, name: &str) -> u64 {
    let gauges = engine.gauges().store;
    gauges.iter().find(|gauge| gauge.name == name).unwrap_or_else(|| panic!("{name} in {gauges:?}")).value
}

#[tokio::test(start_paused = true)]
async fn what_was_committed_runs_and_its_row_goes() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    assert!(world.memory.arrive("seat", "s", SEAT_1A).unwrap());
    assert!(!world.memory.arrive("seat", "s", SEAT_1A).unwrap());
    assert_eq!(status_of(&came(&world, &engine, "s").await), Status::Completed);
    assert_eq!(world.kinds("s").await[..2], ["submitted", "accepted"]);
    settled(&world).await;
    // The same again by whichever way is the same saga.
    assert!(!world.memory.arrive("seat", "s", SEAT_1A).unwrap());
    assert!(!submit(&engine, start("seat", "s", json!({ "seat": "1A" }))).await.created);
    assert!(world.memory.arrive("seat", "s", r#"{"seat":"1B"}"#).is_err());
}

/// More than one round, and more than are taken at once.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_worked_off_by_all_nodes_each_saga_once() {
    let world = World::new();
    for n in 0..700 {
        world.memory.arrive("seat", &format!("s{n}"), &format!("{{\"seat\":{n}}}")).unwrap();
    }
    let engine = world.engine_for(SEAT).await;
    let _other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    for n in 0..700 {
        assert_eq!(status_of(&came(&world, &engine, &format!("s{n}")).await), Status::Completed, "s{n}");
    }
    assert!(world.participants.doubled().is_empty());
    settled(&world).await;
}

/// At each commit of the first saga's life, before and after.
#[tokio::test(start_paused = true)]
async fn a_crash_in_between_loses_and_doubles_nothing() {
    for fault in [Fault::CrashesBefore, Fault::CrashesAfter, Fault::LosesAnswer, Fault::LosesBoth] {
        for at in 1..=3 {
            let world = World::new();
            let engine = world.engine_for(SEAT).await;
            world.store.at_commit(move |nth, _| (nth == at).then_some(fault));
            world.memory.arrive("seat", "s", SEAT_1A).unwrap();
            let crashes = matches!(fault, Fault::CrashesBefore | Fault::CrashesAfter);
            if crashes {
                let crashed = || world.store.crashed.load(std::sync::atomic::Ordering::SeqCst);
                until("it crashed", async || crashed()).await;
                engine.crash();
            }
            world.store.no_faults();
            let next = if crashes { world.engine().await } else { engine };
            assert_eq!(status_of(&came(&world, &next, "s").await), Status::Completed, "{fault:?} at {at}");
            assert!(world.participants.doubled().is_empty());
            settled(&world).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_definition_it_waits_visibly_and_goes_on_when_there_is_one() {
    let world = World::new();
    let engine = world.engine().await;
    world.memory.arrive("seat", "s", SEAT_1A).unwrap();
    until("it was put off", async || gauge(&engine, "submissions_put_off") == 1).await;
    let backlog = world.memory.backlog().await.unwrap();
    assert!(backlog.example.is_some_and(|(id, reason)| id == "s" && reason.contains("no definition seat")));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(gauge(&engine, "submissions_waiting"), 1);
    let registered = world.now();
    register(&engine, SEAT).await;
    assert_eq!(status_of(&came(&world, &engine, "s").await), Status::Completed);
    assert!(world.now() < registered.plus_ms(1_000), "its pause is a minute by now, and is not waited for");
    until("nothing is shown any more", async || gauge(&engine, "submissions_waiting") == 0).await;
}

/// Registered elsewhere, where nobody tells this node.
#[tokio::test(start_paused = true)]
async fn a_definition_of_another_time_is_found_by_the_timer() {
    let world = World::new();
    let engine = world.engine().await;
    world.memory.arrive("seat", "s", SEAT_1A).unwrap();
    until("it was put off", async || gauge(&engine, "submissions_put_off") == 1).await;
    let definition = amends_core::definition::from_toml(SEAT).unwrap().definition;
    let stored = amends_store::StoredDefinition {
        name: "seat".to_owned(),
        version: 1,
        digest: definition.digest.clone(),
        tree: amends_core::json::canonical(&definition.tree),
        created_at: world.now(),
    };
    let put = amends_store::Definitions::register(&*world.memory, stored).await.unwrap();
    assert!(matches!(put, Ok(true)));
    assert_eq!(status_of(&came(&world, &engine, "s").await), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_fit_is_a_dead_saga() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    world.memory.arrive("seat", "s", r#"{"chair":"1A"}"#).unwrap();
    assert_eq!(status_of(&came(&world, &engine, "s").await), Status::Dead);
    settled(&world).await;
    // It holds nothing.
    assert_eq!(
        status_of(&run(&engine, start("seat", "t", json!({ "seat": "1A" }))).await),
        Status::Completed
    );
}

/// The API was told first, in a moment in which neither could see the other.
#[tokio::test(start_paused = true)]
async fn one_whose_id_is_anothers_is_refused_visibly() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    submit(&engine, start("seat", "s", json!({ "seat": "2B" }))).await;
    world.memory.arrive_unseeing("seat", "s", SEAT_1A);
    until("it was refused", async || gauge(&engine, "submissions_refused") == 1).await;
    let backlog = world.memory.backlog().await.unwrap();
    assert!(backlog.example.is_some_and(|(_, reason)| reason.contains("exists with another")));
    assert_eq!(gauge(&engine, "submissions_waiting"), 0);
    // So is what no database should have let in.
    for (nth, input) in ["{", r#"{"seat":1,"seat":2}"#].into_iter().enumerate() {
        world.memory.arrive_unseeing("seat", &format!("u{nth}"), input);
    }
    until("they were refused", async || gauge(&engine, "submissions_refused") == 3).await;
    // One that is the same after all is no trouble.
    submit(&engine, start("seat", "t", json!({ "seat": "3C" }))).await;
    world.memory.arrive_unseeing("seat", "t", r#"{"seat":"3C"}"#);
    settled(&world).await;
    assert_eq!(gauge(&engine, "submissions_refused"), 3);
}

/// Whoever's transaction has committed was told that the id is theirs.
#[tokio::test(start_paused = true)]
async fn a_row_that_waits_keeps_its_id_from_the_api() {
    let world = World::new();
    let engine = world.engine().await;
    world.memory.arrive("seat", "s", SEAT_1A).unwrap();
    until("it was put off", async || gauge(&engine, "submissions_put_off") == 1).await;
    let other = world.engine_with(amends_engine::Config::new("b", 2)).await;
    register(&other, SEAT).await;
    let refused = other.submit(start("seat", "s", json!({ "seat": "2B" }))).await;
    assert!(matches!(refused, Err(Refused::InputConflict(_))), "{refused:?}");
    assert_eq!(status_of(&came(&world, &engine, "s").await), Status::Completed);
    settled(&world).await;
}

#[tokio::test(start_paused = true)]
async fn when_the_holder_ends_it_goes_on_at_once() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    // A holder that rests for minutes: those behind it are parked, with long pauses.
    world.participants.next("pay", std::iter::repeat_n(Does::Misconfigured, 2));
    submit(&engine, start("seat", "holder", json!({ "seat": "1A" }))).await;
    world.memory.arrive("seat", "s", SEAT_1A).unwrap();
    world.memory.arrive("seat", "t", SEAT_1A).unwrap();
    assert_eq!(status_of(&came(&world, &engine, "s").await), Status::Completed);
    assert_eq!(status_of(&came(&world, &engine, "t").await), Status::Completed);
    let (holder, s, t) = (world.row("holder").await, world.row("s").await, world.row("t").await);
    let refusals = world.kinds("s").await.iter().filter(|kind| **kind == "accept_refused").count();
    assert!(refusals >= 6, "its pause had grown: {refusals}");
    let waited = s.ended_at.unwrap().since_ms(holder.ended_at.unwrap());
    assert!(waited < 1_000, "{waited} ms after its holder's end");
    let waited = t.ended_at.unwrap().since_ms(s.ended_at.unwrap());
    assert!(waited < 1_000, "{waited} ms after the end of the next holder");
}

/// However many wait: the API is never told that the engine is full because of them.
#[tokio::test(start_paused = true)]
async fn a_flood_leaves_the_api_its_half() {
    let world = World::new();
    let mut config = config("a");
    config.limits.sagas_max = 8;
    config.limits.sagas_and_due_max = 16;
    let engine = world.engine_with(config).await;
    register(&engine, SEAT).await;
    world.participants.next("hold", std::iter::repeat_n(Does::WorksAfter(Duration::from_secs(20)), 40));
    for n in 0..40 {
        world.memory.arrive("seat", &format!("s{n}"), &format!("{{\"seat\":{n}}}")).unwrap();
    }
    until("it has taken what it may", async || engine.gauges().begun == 4).await;
    for n in 0..4 {
        submit(&engine, start("seat", &format!("api{n}"), json!({ "seat": format!("api{n}") }))).await;
    }
    for n in 0..40 {
        assert_eq!(status_of(&came(&world, &engine, &format!("s{n}")).await), Status::Completed, "s{n}");
    }
}
