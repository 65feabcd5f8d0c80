//! Sagas that were put into the store by somebody else and wait for their claims (rule 13).

use amends_core::{Now, Status, Submission, decide, submit as begin};
use amends_store::{Item, Journal as _, Row, StoredEntry};
use serde_json::{Value, json};

use crate::support::*;

/// Puts a saga into the store as a caller's SQL transaction does.
async fn put(world: &World, engine: &amends_engine::Engine, id: &str, input: Value) {
    put_of(world, engine, "seat", id, input).await;
}

async fn put_of(world: &World, engine: &amends_engine::Engine, name: &str, id: &str, input: Value) {
    let definition = engine.definition(name, None).await.expect("registered").definition;
    let now = Now { at: world.now(), jitter: amends_core::Jitter::NONE };
    let seat = input["seat"].as_str().unwrap_or("?").to_owned();
    let submission =
        Submission { id: saga_id(id), input, accepting: true, trace: None, epoch: 0, who: "sql".to_owned() };
    let decision = begin(definition.clone(), submission, vec![format!("seat:{seat}")], now);
    assert!(decide(&decision.after, &amends_core::Input::Tick, now).expect("a tick").entries.is_empty());
    let row = Row {
        rowid: 0,
        id: saga_id(id),
        saga: definition.name.clone(),
        definition_version: definition.version,
        digest: definition.digest.clone(),
        status: "accepting".into(),
        business_state: "INIT".into(),
        seq: 1,
        step: None,
        operation: None,
        error_class: None,
        reason: None,
        contradictions: 0,
        overdue: false,
        created_at: now.at,
        updated_at: now.at,
        ended_at: None,
        due_at: Some(now.at),
        owner: None,
    };
    let item = amends_store::Submission {
        row,
        entries: decision.entries.iter().map(StoredEntry::encode).collect(),
        claims: Vec::new(),
        fingerprint: id.to_owned(),
        nonce: 1,
    };
    world.memory.commit(vec![Item::Submit(item)]).await;
}

#[tokio::test(start_paused = true)]
async fn it_takes_its_claims_and_runs() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    put(&world, &engine, "s", json!({ "seat": "1A" })).await;
    until("it is accepted", async || world.kinds("s").await.contains(&"accepted")).await;
    assert_eq!(status_of(&rest(&engine, "s").await), Status::Completed);
}

/// Accepted and ended in one commit: there are only decision points.
const NOTHING: &str = r#"
saga = "nothing"
version = 1
claims = ["seat:${input.seat}"]

[[step]]
name = "decide"
"#;

#[tokio::test(start_paused = true)]
async fn one_that_ends_as_it_is_accepted_leaves_no_claim_behind() {
    let world = World::new();
    let engine = world.engine_for(NOTHING).await;
    register(&engine, SEAT).await;
    put_of(&world, &engine, "nothing", "s", json!({ "seat": "1A" })).await;
    assert_eq!(status_of(&rest(&engine, "s").await), Status::Completed);
    assert_eq!(
        status_of(&run(&engine, start("seat", "next", json!({ "seat": "1A" }))).await),
        Status::Completed
    );
}

#[tokio::test(start_paused = true)]
async fn while_a_claim_is_held_it_waits_visibly_and_comes_again() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    world.participants.next("hold", [Does::Misconfigured]);
    submit(&engine, start("seat", "holder", json!({ "seat": "1A" }))).await;
    put(&world, &engine, "s", json!({ "seat": "1A" })).await;
    until("it was refused", async || world.kinds("s").await.contains(&"accept_refused")).await;
    until("it is parked", async || world.row("s").await.owner.is_none()).await;
    assert_eq!(world.row("s").await.status, "accepting");
    assert_eq!(status_of(&rest(&engine, "s").await), Status::Completed);
    assert!(world.row("holder").await.ended_at <= world.row("s").await.ended_at);
}

#[tokio::test(start_paused = true)]
async fn one_whose_input_does_not_fit_is_dead() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    put(&world, &engine, "s", json!({ "chair": "1A" })).await;
    assert_eq!(status_of(&rest(&engine, "s").await), Status::Dead);
    until("its row says so", async || world.row("s").await.status == "dead").await;
    assert!(world.row("s").await.reason.is_some_and(|reason| reason.contains("input.seat")));
}
