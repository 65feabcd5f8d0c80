//! What nobody can tell is asked about, repeated only where that is safe, and never undone on a guess.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use amends::{Call, Failure, Found, Idempotency, Outcome, Saga, Status, Step, Undone};

use crate::support::{Seen, quick_retry, quick_unknown, started};

/// How an action fails the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Panics,
    Hangs,
    Errs,
}

/// An action that fails so the first time, and would succeed the second time.
fn action(seen: &Seen, first: First) -> impl Fn(Call, ()) -> Acting + Send + Sync + 'static {
    let seen = seen.clone();
    move |call, ()| {
        let seen = seen.clone();
        Box::pin(async move {
            seen.note("act");
            if seen.count("act") > 1 {
                return Ok(call.attempt());
            }
            match first {
                First::Panics => panic!("out of paper"),
                First::Hangs => pending().await,
                First::Errs => Err(std::io::Error::other("connection reset"))?,
            }
        })
    }
}

type Acting = std::pin::Pin<Box<dyn Future<Output = Result<u32, Failure>> + Send>>;

fn saga(step: Step<(), u32>) -> Saga<()> {
    let step = step.timeout(Duration::from_millis(50)).retry(quick_retry()).on_unknown(quick_unknown());
    Saga::builder("one", 1).step(step).build().unwrap()
}

const FIRST: [First; 3] = [First::Panics, First::Hangs, First::Errs];

#[tokio::test]
async fn under_the_default_it_is_not_called_a_second_time() {
    for first in FIRST {
        let seen = Seen::default();
        let undoing = seen.clone();
        let step = Step::new("act").action(action(&seen, first)).compensation(move |_: Call, (), _: u32| {
            undoing.note("undo");
            async { Ok(()) }
        });
        let saga = saga(step);
        assert!(!saga.warnings().is_empty(), "that it may need a person is said beforehand");
        let amends = started(&saga).await;
        let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
        let Outcome::Unknown { reason } = handle.outcome().await.unwrap() else { panic!("{first:?}") };
        let words = match first {
            First::Panics => "the handler panicked: out of paper",
            First::Hangs => "no answer within 50 ms",
            First::Errs => "connection reset",
        };
        assert!(reason.contains(words), "{first:?}: {reason}");
        handle.cancel("away with it").await.unwrap();
        // Verification comes round several times meanwhile.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(seen.all(), ["act"], "{first:?}: neither repeated nor undone");
    }
}

#[tokio::test]
async fn what_replays_is_called_again() {
    for first in FIRST {
        let seen = Seen::default();
        let step = Step::new("act")
            .action(action(&seen, first))
            .compensation(|_: Call, (), _: u32| async { Ok(()) })
            .idempotency(Idempotency::Replay);
        let saga = saga(step);
        assert!(saga.warnings().is_empty());
        let amends = started(&saga).await;
        let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
        let Outcome::Completed(facts) = handle.outcome().await.unwrap() else { panic!("{first:?}") };
        assert_eq!(facts.get::<u32>("act").unwrap(), 2, "{first:?}: the second attempt");
    }
}

#[tokio::test]
async fn a_query_settles_it_without_a_second_call() {
    let found: [(Found<u32>, &str); 3] = [
        (Found::Done(41), "completed 41"),
        (Found::Rejected("not in stock".into()), "compensated act: not in stock"),
        (Found::Sealed, "compensated"),
    ];
    for (found, expected) in found {
        let seen = Seen::default();
        let told = found.clone();
        let step = Step::new("act")
            .action(action(&seen, First::Hangs))
            .query(move |call: Call, ()| {
                assert!(call.is_query() && call.key() == "one:1:act:action");
                let told = told.clone();
                async { Ok(told) }
            })
            .compensation(|_: Call, (), _: u32| async { Ok(()) });
        let saga = saga(step);
        let amends = started(&saga).await;
        let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
        let outcome = match handle.outcome().await.unwrap() {
            Outcome::Completed(facts) => format!("completed {}", facts.get::<u32>("act").unwrap()),
            Outcome::Compensated { reason } => format!("compensated {reason}"),
            other => panic!("{other:?}"),
        };
        assert!(outcome.starts_with(expected), "{found:?}: {outcome}");
        assert_eq!(seen.count("act"), 1, "{found:?}");
    }
}

#[tokio::test]
async fn a_query_that_cannot_tell_is_asked_again_and_one_that_never_saw_it_allows_a_repeat() {
    let seen = Seen::default();
    let asked = Arc::new(AtomicU32::new(0));
    let step = Step::new("act")
        .action(action(&seen, First::Errs))
        .query(move |_: Call, ()| {
            let n = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                match n {
                    0 => Err(Failure::rejected("who are you?")),
                    _ => Ok(Found::NeverSeen),
                }
            }
        })
        .compensation(|_: Call, (), _: u32| async { Ok(()) })
        .idempotency(Idempotency::Effect);
    let saga = saga(step);
    let amends = started(&saga).await;
    let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
    assert!(matches!(handle.outcome().await.unwrap(), Outcome::Completed(_)));
    assert_eq!(seen.count("act"), 2);
}

#[tokio::test]
async fn facts_with_any_members_are_facts() {
    for fact in
        [serde_json::json!({ "outcome": "rejected" }), serde_json::json!(null), serde_json::json!("x")]
    {
        let told = fact.clone();
        let step = Step::new("act")
            .action(|_: Call, ()| async { Err::<serde_json::Value, _>(Failure::unknown("lost")) })
            .query(move |_: Call, ()| {
                let told = told.clone();
                async { Ok(Found::Done(told)) }
            })
            .without_effect()
            .on_unknown(quick_unknown());
        let saga: Saga<()> = Saga::builder("one", 1).step(step).build().unwrap();
        let amends = started(&saga).await;
        let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
        let Outcome::Completed(facts) = handle.outcome().await.unwrap() else { panic!("{fact}") };
        assert_eq!(facts.get::<serde_json::Value>("act").unwrap(), fact);
    }
}

#[tokio::test]
async fn a_fence_undoes_what_nobody_knows_of() {
    for (undone, kept) in [(Undone::Undone, "compensated"), (Undone::NeverDone, "skipped")] {
        let seen = Seen::default();
        let fencing = seen.clone();
        let step = Step::new("act").action(action(&seen, First::Hangs)).fenced_compensation(
            move |call: Call, ()| {
                fencing.note(format!("fence {}", call.action_key().unwrap()));
                async move { Ok(undone) }
            },
        );
        let step = step.timeout(Duration::from_secs(3600)).on_unknown(quick_unknown());
        let saga: Saga<()> =
            Saga::builder("one", 1).step(step.timeout(Duration::from_millis(300))).build().unwrap();
        let amends = started(&saga).await;
        let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
        seen.until("act").await;
        handle.cancel("too slow").await.unwrap();
        assert!(matches!(handle.outcome().await.unwrap(), Outcome::Compensated { .. }), "{kept}");
        assert_eq!(seen.all(), ["act", "fence one:1:act:action"], "{kept}");
    }
}

#[tokio::test]
async fn what_was_certainly_not_done_is_tried_again_until_it_is_exhausted() {
    let seen = Seen::default();
    let noting = seen.clone();
    let step = Step::new("act")
        .action(move |_: Call, ()| {
            noting.note("act");
            async { Err::<u32, _>(Failure::not_executed("no connection free")) }
        })
        .compensation(|_: Call, (), _: u32| async { Ok(()) });
    let mut retry = quick_retry();
    retry.max_attempts = 3;
    let saga: Saga<()> = Saga::builder("one", 1).step(step.retry(retry)).build().unwrap();
    let amends = started(&saga).await;
    let handle = amends.submit(&saga, "one:1", &()).await.unwrap();
    let Outcome::Compensated { reason } = handle.outcome().await.unwrap() else { panic!() };
    assert!(reason.contains("no connection free"), "{reason}");
    assert_eq!(seen.count("act"), 3, "also under `none`: nothing had been done");
    assert_eq!(handle.status().await.unwrap(), Status::Compensated);
}
