//! Journals of what ended long ago go; ids stay.

use std::time::Duration;

use amends_core::{By, Evidence, Person, PersonAction, Problem};
use amends_engine::{Config, Refused, View};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn after_retention_the_id_still_names_the_saga() {
    let world = World::new();
    let engine =
        world.engine_with(Config { retention: Some(Duration::from_secs(3_600)), ..config("a") }).await;
    register(&engine, ORDER).await;
    run(&engine, order("o1")).await;
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    assert_eq!(world.journal("o1").await.len(), 5, "not yet");
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert_eq!(world.journal("o1").await.len(), 0);

    let View::Row { row, why } = engine.saga(&saga_id("o1")).await.expect("a view") else {
        panic!("it is whole")
    };
    assert_eq!(row.status, "completed");
    assert!(why.contains("retention"));
    assert!(!submit(&engine, order("o1")).await.created, "never a second time");
    let other = start("order", "o1", json!({ "sku": "tea", "qty": 3, "amount": "12.50" }));
    assert!(matches!(engine.submit(other).await.expect_err("another input"), Refused::InputConflict(_)));

    let person = Person {
        by: By { who: "ann".into(), reason: String::new() },
        version: None,
        action: PersonAction::Cancel,
    };
    let refused = engine.act(&saga_id("o1"), person).await.expect_err("it has ended");
    assert!(matches!(refused, Refused::Core { problem: Problem::WrongState, .. }), "{refused:?}");
    engine.callback("o1:charge:action", "e", Evidence::Done { fact: json!(null) }).await.expect("taken");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.row("o1").await.owner, None);
    assert_eq!(engine.gauges().sagas, 0);
}
