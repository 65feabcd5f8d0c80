//! Calls that meet a transaction which is not over.

use amends_inbox::{Answer, Compensation, Found};
use serde_json::json;

use crate::world::{
    Gate, Script, World, action_of, compensation_of, done, key, nothing_to_undo, request, story, too_late,
    undone,
};

pub(crate) async fn a_second_call_waits_for_the_first_and_gets_its_answer(world: &impl World) {
    let gate = Gate::new(false);
    let first = spawn_act(world, Script::Wait(gate.clone()));
    gate.entered.notified().await;
    let second = spawn_act(world, Script::Succeed);
    world.somebody_waits().await;
    // Not committed, so not seen; and nobody is kept waiting by asking.
    assert_eq!(world.query(key("a:slot:action")).await.unwrap(), Found::NeverSeen);
    gate.open();
    assert_eq!(first.await.unwrap().unwrap(), done());
    assert_eq!(second.await.unwrap().unwrap(), done());
    assert_eq!(story(world, "a").await, ["act a:slot:action"]);
}

pub(crate) async fn undoing_waits_for_the_action_and_undoes_it(world: &impl World) {
    let gate = Gate::new(false);
    let first = spawn_act(world, Script::Wait(gate.clone()));
    gate.entered.notified().await;
    let undoing = spawn_undo(world);
    world.somebody_waits().await;
    gate.open();
    assert_eq!(first.await.unwrap().unwrap(), done());
    assert_eq!(undoing.await.unwrap().unwrap(), undone());
    assert_eq!(story(world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
}

pub(crate) async fn undoing_what_rolls_back_meanwhile_makes_a_tombstone(world: &impl World) {
    let gate = Gate::new(true);
    let first = spawn_act(world, Script::Wait(gate.clone()));
    gate.entered.notified().await;
    let undoing = spawn_undo(world);
    world.somebody_waits().await;
    gate.open();
    first.await.unwrap().unwrap_err();
    assert_eq!(undoing.await.unwrap().unwrap(), nothing_to_undo());
    assert_eq!(world.act(action_of("a"), Script::Succeed).await.unwrap(), too_late());
    assert_eq!(story(world, "a").await.len(), 0);
}

pub(crate) async fn undoing_under_two_keys_at_once_happens_once(world: &impl World) {
    world.act(action_of("a"), Script::Succeed).await.unwrap();
    let gate = Gate::new(false);
    let first = {
        let (world, gate) = (world.clone(), gate.clone());
        tokio::spawn(async move { world.undo(compensation_of("a"), Script::Wait(gate)).await })
    };
    gate.entered.notified().await;
    let second = {
        let world = world.clone();
        let again = Compensation::new(key("a:slot:compensation.2"), key("a:slot:action"), request());
        tokio::spawn(async move { world.undo(again, Script::Succeed).await })
    };
    world.somebody_waits().await;
    gate.open();
    assert_eq!(first.await.unwrap().unwrap(), undone());
    assert_eq!(second.await.unwrap().unwrap(), Answer::Done(json!({"undone": true})));
    assert_eq!(story(world, "a").await, ["act a:slot:action", "undo a:slot:action"]);
}

type Called = tokio::task::JoinHandle<Result<amends_inbox::Answer, amends_inbox::Error>>;

fn spawn_act(world: &impl World, script: Script) -> Called {
    let world = world.clone();
    tokio::spawn(async move { world.act(action_of("a"), script).await })
}

fn spawn_undo(world: &impl World) -> Called {
    let world = world.clone();
    tokio::spawn(async move { world.undo(compensation_of("a"), Script::Succeed).await })
}
