//! What a builder makes is an ordinary definition, and what does not fit it waits where people see it.

use std::time::Duration;

use amends::{Amends, Call, Failure, Idempotency, Outcome, Saga, StartError, Status, Step};
use serde::{Deserialize, Serialize};

use crate::support::{Order, Seen, file, quick, waiting_reason};

fn shipping<I: serde::de::DeserializeOwned + Send + 'static>(seen: &Seen) -> Saga<I> {
    let seen = seen.clone();
    let step = Step::new("ship")
        .action(move |_: Call, _: I| {
            seen.note("ship");
            async { Ok(()) }
        })
        .without_effect()
        .idempotency(Idempotency::Replay);
    Saga::builder("shipping", 1).step(step).build().unwrap()
}

#[tokio::test]
async fn it_is_registered_as_what_it_is_and_the_same_again_is_known() {
    let (_folder, url) = file();
    let saga = shipping::<Order>(&Seen::default());
    for _ in 0..2 {
        let amends = Amends::builder(&url).saga(&saga).start().await.unwrap();
        let registered = amends.engine().definition("shipping", None).await.unwrap();
        assert_eq!(registered.definition.digest, saga.definition().digest);
        assert!(registered.warnings.is_empty(), "{:?}", registered.warnings);
        amends.shutdown(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn another_definition_under_the_same_version_is_refused() {
    let (_folder, url) = file();
    let seen = Seen::default();
    let amends = Amends::builder(&url).saga(&shipping::<Order>(&seen)).start().await.unwrap();
    amends.shutdown(Duration::from_secs(1)).await;

    let changed = Saga::<Order>::builder("shipping", 1)
        .step(Step::new("ship").action(|_: Call, _: Order| async { Ok(()) }).without_effect())
        .build()
        .unwrap();
    let error = Amends::builder(&url).saga(&changed).start().await.unwrap_err();
    assert!(matches!(error, StartError::Changed { version: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("raise the version"), "{error}");

    let error =
        Amends::builder("memory:").saga(&changed).saga(&shipping::<Order>(&seen)).start().await.unwrap_err();
    assert!(matches!(error, StartError::Twice { version: 1, .. }), "{error:?}");

    let raised = Saga::<Order>::builder("shipping", 2)
        .step(Step::new("ship").action(|_: Call, _: Order| async { Ok(()) }).without_effect())
        .build()
        .unwrap();
    let amends = Amends::builder(&url).saga(&raised).saga(&shipping::<Order>(&seen)).start().await.unwrap();
    let handle = amends.submit(&raised, "s:1", &Order::of("A", 1)).await.unwrap();
    assert!(matches!(handle.outcome().await.unwrap(), Outcome::Completed(_)));
    assert!(seen.all().is_empty(), "a version's handlers are its own");
}

#[tokio::test]
async fn a_saga_without_its_handlers_waits_visibly_and_goes_on_with_them() {
    let (_folder, url) = file();
    let seen = Seen::default();
    let saga = shipping::<Order>(&seen);
    // It is registered and submitted, but the process ends before it does anything; the next one has no handlers.
    let gate = Saga::<Order>::from_toml(
        r#"
            saga = "shipping"
            version = 2
            participants.local-ship.idempotency = "replay"
            step = [{ name = "ship", effect = "none", action = { to = "local-ship", post = "/shipping/1/ship", body = { input = "${input}", facts = {} } } }]
        "#,
    )
    .unwrap();
    let amends = Amends::builder(&url).saga(&gate).tune(quick).start().await.unwrap();
    let handle = amends.submit(&gate, "s:1", &Order::of("A", 1)).await.unwrap();
    let reason = loop {
        if let Some(reason) = waiting_reason(&handle.view().await.unwrap()) {
            break reason;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(reason.contains("no handlers for step `ship` of `shipping` version 1"), "{reason}");
    assert_eq!(handle.status().await.unwrap(), Status::Running);
    assert_nothing_was_sent(&handle.view().await.unwrap());
    drop(handle);
    amends.shutdown(Duration::from_secs(1)).await;

    let amends = Amends::builder(&url).saga(&saga).saga(&gate).tune(quick).start().await.unwrap();
    retry(&amends, "s:1", "ship").await;
    let handle = amends.handle(&gate, "s:1").unwrap();
    assert!(matches!(handle.outcome().await.unwrap(), Outcome::Completed(_)));
    assert_eq!(seen.count("ship"), 1);
}

#[tokio::test]
async fn an_input_that_does_not_fit_the_type_reaches_no_handler_and_waits_for_one_that_reads_it() {
    #[derive(Serialize, Deserialize)]
    struct Newer {
        sku: String,
        warehouse: String,
    }
    let (_folder, url) = file();
    let seen = Seen::default();
    let (newer, older) = (shipping::<Newer>(&seen), shipping::<Order>(&seen));
    assert_eq!(
        newer.definition().digest,
        older.definition().digest,
        "a digest does not know of Rust's types"
    );
    let amends = Amends::builder(&url).saga(&newer).tune(quick).start().await.unwrap();
    let handle = amends.submit(&older, "s:1", &Order::of("A", 1)).await.unwrap();
    let reason = loop {
        if let Some(reason) = waiting_reason(&handle.view().await.unwrap()) {
            break reason;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(reason.contains("does not fit") && reason.contains("warehouse"), "{reason}");
    assert!(seen.all().is_empty());
    assert_nothing_was_sent(&handle.view().await.unwrap());
    drop(handle);
    amends.shutdown(Duration::from_secs(1)).await;

    let amends = Amends::builder(&url).saga(&older).tune(quick).start().await.unwrap();
    retry(&amends, "s:1", "ship").await;
    assert!(matches!(amends.handle(&older, "s:1").unwrap().outcome().await.unwrap(), Outcome::Completed(_)));
    assert_eq!(seen.count("ship"), 1);
}

#[test]
fn what_a_definition_relies_on_is_played_before_it_runs() {
    use amends::check::{Options, Verdict};
    let step = || {
        Step::new("pay")
            .action(|_: Call, ()| async { Ok(()) })
            .compensation(|_: Call, (), ()| async { Ok(()) })
    };
    let verdict = |step: Step<(), ()>| {
        let report = Saga::<()>::builder("one", 1).step(step).build().unwrap().check(&Options::default());
        (report.verdict, report.persons.len())
    };
    assert_eq!(verdict(step().idempotency(Idempotency::Replay)), (Verdict::Ends, 0));
    assert!(matches!(verdict(step()), (Verdict::MayNeedAPerson, 1..)));
}

/// It is parked, and known not to have happened.
fn assert_nothing_was_sent(view: &amends::View) {
    let amends::View::Whole(saga) = view else { panic!() };
    let action = &saga.steps[0].action;
    assert_eq!((action.knowledge(), action.attempts), (amends_core::Knowledge::Unsent, 0));
}

/// A person says "try again now".
async fn retry(amends: &Amends, id: &str, step: &str) {
    let id = amends::SagaId::new(id).unwrap();
    let amends::View::Whole(saga) = amends.engine().saga(&id).await.unwrap() else { panic!() };
    let by = amends_core::By { who: "me".into(), reason: "it can be served now".into() };
    let action =
        amends_core::PersonAction::Retry { step: step.into(), operation: None, force: false, new_key: false };
    amends.engine().act(&id, amends_core::Person { by, version: Some(saga.seq), action }).await.unwrap();
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let fail = |_: Call, ()| async { Err::<(), _>(Failure::rejected("no")) };
    let invalid = Saga::<()>::builder("Order", 1)
        .participant("local-x", serde_json::json!({ "idempotency": "replay" }))
        .step(Step::new("no undo").action(fail))
        .step(Step::new("late").action(fail).without_effect().after(["nobody"]).timeout(Duration::ZERO))
        .build()
        .unwrap_err();
    let words = invalid.to_string();
    for expected in ["local-x", "`no undo` is no name of a step", "Order", "nobody", "timeout"] {
        assert!(words.contains(expected), "{expected} is not in:\n{words}");
    }
    let invalid = Saga::<()>::builder("order", 1).step(Step::new("act").action(fail)).build().unwrap_err();
    assert!(invalid.to_string().contains("compensation"), "{invalid}");
}
