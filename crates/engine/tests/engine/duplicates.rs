//! Rule 14: an id names one saga; and rule 13: claims.

use amends_core::Status;
use amends_engine::Refused;
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_same_submission_gives_the_same_saga() {
    let world = World::new();
    let engine = world.engine_for(ORDER).await;
    let racing: Vec<_> = (0..50)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { submit(&engine, order("o1")).await.created })
        })
        .collect();
    let mut created = 0;
    for one in racing {
        created += usize::from(one.await.expect("no panic"));
    }
    assert_eq!(created, 1);
    rest(&engine, "o1").await;
    until("it left memory", async || engine.gauges().sagas == 0).await;
    let again = submit(&engine, order("o1")).await;
    assert!(!again.created);
    assert_eq!(status_of(&whole(Ok(again.view))), Status::Completed, "also after it ended");
    assert_eq!(world.participants.effects().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn equal_input_means_equal_text_of_numbers() {
    let world = World::new();
    let engine = world.engine_for(FAX).await;
    let with = |text: &str| start("fax", "f", serde_json::from_str(text).expect("JSON"));
    submit(&engine, with(r#"{"text": "a", "n": 1.0}"#)).await;
    for gone in [false, true] {
        if gone {
            until("it left memory", async || engine.gauges().sagas == 0).await;
        }
        assert!(!submit(&engine, with(r#"{"n": 1.0, "text": "a"}"#)).await.created);
        let refused = engine.submit(with(r#"{"text": "a", "n": 1}"#)).await.expect_err("another input");
        assert!(matches!(refused, Refused::InputConflict(_)), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_claim_refuses_and_names_the_holder() {
    let world = World::new();
    let engine = world.engine_for(SEAT).await;
    world.participants.next("hold", [Does::Misconfigured]);
    submit(&engine, start("seat", "a", json!({ "seat": "4A" }))).await;
    let refused = engine.submit(start("seat", "b", json!({ "seat": "4A" }))).await.expect_err("held");
    let Refused::ClaimHeld(holder) = &refused else { panic!("{refused:?}") };
    assert_eq!((holder.claim.as_str(), holder.saga.as_str()), ("seat:4A", "a"));
    let unknown = engine.saga(&saga_id("b")).await.expect_err("nothing of it is kept");
    assert!(matches!(unknown, Refused::UnknownSaga(_)));
    submit(&engine, start("seat", "c", json!({ "seat": "4B" }))).await;
    rest(&engine, "a").await;
    assert!(submit(&engine, start("seat", "b", json!({ "seat": "4A" }))).await.created);
}
