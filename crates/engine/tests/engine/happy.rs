//! A saga that meets no trouble.

use amends_core::Status;
use amends_engine::DefinitionText;
use amends_store::Lists as _;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn three_steps_are_four_durable_appends() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    let saga = run(&engine, order("o1")).await;

    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(world.kinds("o1").await, ["submitted", "answered", "answered", "answered", "completed"]);
    assert_eq!(world.store.commits(), 4, "the end is written with the last answer");
    assert_eq!(world.participants.effects(), ["reserve action", "charge action", "confirm action"]);
}

#[tokio::test(start_paused = true)]
async fn at_its_end_a_saga_leaves_memory_its_claims_and_its_owner() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    run(&engine, start("seat", "a", serde_json::json!({ "seat": "4A" }))).await;

    let row = world.row("a").await;
    assert_eq!((row.status.as_str(), row.owner, row.due_at), ("completed", None, None));
    assert_eq!(row.ended_at, Some(row.updated_at));
    until("it left memory", async || engine.gauges().sagas == 0).await;
    let next = run(&engine, start("seat", "b", serde_json::json!({ "seat": "4A" }))).await;
    assert_eq!(status_of(&next), Status::Completed, "the seat is free again");
}

#[tokio::test(start_paused = true)]
async fn branches_run_at_once() {
    let world = World::new();
    let engine = world.engine_for(TRIP).await;
    let saga = run(&engine, start("trip", "t", serde_json::json!({}))).await;
    assert_eq!(status_of(&saga), Status::Completed);
    assert_eq!(world.participants.under_way_max(), 2);
    assert_eq!(world.participants.effects().last().map(String::as_str), Some("mail action"));
}

#[tokio::test(start_paused = true)]
async fn many_sagas_share_commits() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    complete_at_once(&engine, 200).await;
    let commits = world.store.commits();
    assert!(commits < 200, "800 items in {commits} commits");
    let metrics = engine.metrics();
    assert_eq!(metrics.items["committed"], 800);
    assert_eq!(metrics.batch_items.sum, 800);
    assert_eq!(metrics.batch_items.count(), metrics.commit_us.count());
}

#[tokio::test(start_paused = true)]
async fn what_happened_is_counted_without_ids() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    run(&engine, order("o1")).await;
    world.participants.next("charge", [Does::Refuses]);
    run(&engine, order("o2")).await;

    let metrics = engine.metrics();
    let orders = &metrics.sagas["order"];
    assert_eq!((orders.started, orders.came_to["completed"], orders.came_to["compensated"]), (2, 1, 1));
    let calls = |step: &str, outcome: &str| {
        let matching = metrics.calls.iter().filter(|(l, _)| l.step == step && l.outcome == outcome);
        matching.map(|(_, n)| *n).sum::<u64>()
    };
    assert_eq!((calls("reserve", "done"), calls("charge", "rejected"), calls("confirm", "done")), (3, 1, 1));
    assert!(metrics.calls.keys().all(|labels| labels.definition == "order"));
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_registered_once_and_never_changes() {
    let world = World::new();
    let engine = world.engine().await;
    let text = || DefinitionText::Toml(ORDER.to_owned());
    let first = engine.register(text(), "order").await.expect("registered");
    let again = engine.register(text(), "order").await.expect("known");
    assert_eq!((first.created, again.created), (true, false));
    assert_eq!(first.created_at, again.created_at);

    let other = DefinitionText::Toml(ORDER.replace("/charges\"", "/charge\""));
    let refused = engine.register(other, "order").await.expect_err("another content");
    assert!(matches!(refused, amends_engine::Refused::DefinitionConflict { version: 1, .. }), "{refused:?}");
    assert!(matches!(
        engine.register(text(), "orders").await.expect_err("another name"),
        amends_engine::Refused::InvalidDefinition(_)
    ));

    let second = DefinitionText::Toml(ORDER.replace("version = 1", "version = 2"));
    engine.register(second, "order").await.expect("a new version");
    assert_eq!(engine.definition("order", None).await.expect("there").definition.version, 2);
    assert_eq!(engine.definition("order", Some(1)).await.expect("there").definition.version, 1);
    assert_eq!(engine.definitions(None, 10).await.expect("a list").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_nobody_configured_is_warned_of() {
    let world = World::new();
    let config = amends_engine::Config {
        participants: Some(vec!["inventory".into(), "shipping".into()]),
        ..config("a")
    };
    let engine = world.engine_with(config).await;
    let registered =
        engine.register(DefinitionText::Toml(ORDER.to_owned()), "order").await.expect("registered");
    let paths: Vec<_> = registered.warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert!(
        paths.contains(&"participants.payment") && !paths.contains(&"participants.shipping"),
        "{paths:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_input_that_lacks_what_the_definition_needs_is_refused() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    let refused =
        engine.submit(start("order", "o1", serde_json::json!({ "sku": "tea" }))).await.expect_err("refused");
    assert!(
        matches!(&refused, amends_engine::Refused::MissingInput(path) if path.starts_with("input.")),
        "{refused:?}"
    );
    let refused = engine.submit(start("oder", "o1", serde_json::json!({}))).await.expect_err("refused");
    assert!(matches!(refused, amends_engine::Refused::UnknownDefinition(_)));
    assert_eq!(world.memory.row(&saga_id("o1")).await.expect("memory answers"), None);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let world = World::new();
        let engine = world.engine_with(amends_engine::Config::new("a", seed)).await;
        register(&engine, ORDER).await;
        world.participants.next("reserve", [Does::IsBusy, Does::WorksSilently, Does::IsBusy, Does::Refuses]);
        world
            .participants
            .next("charge", [Does::Misconfigured, Does::NeverGets, Does::Refuses, Does::IsBusy]);
        let running: Vec<_> = (0..30)
            .map(|n| {
                let engine = engine.clone();
                tokio::spawn(async move { run(&engine, order(&format!("o{n}"))).await })
            })
            .collect();
        for saga in running {
            saga.await.expect("no panic");
        }
        let mut journals = Vec::new();
        for n in 0..30 {
            journals.push(world.journal(&format!("o{n}")).await);
        }
        runs.push((journals, world.participants.calls()));
    }
    assert!(runs[0] == runs[1], "entry for entry, call for call, time for time");
    assert!(runs[0] != runs[2], "jitter comes from the seed");
}
