//! Many callers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use amends_inbox::{Answer, Compensation, Error, Found};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::world::{
    Script, World, action_of, compensation_of, done, key, nothing_to_undo, request, stock, story, too_late,
    undone,
};

const CALLERS: usize = 64;
const SAGAS: usize = 6;

/// What a caller heard.
enum Heard {
    Act(usize, Result<Answer, Error>),
    Undo(usize, Result<Answer, Error>),
    UndoAgain(usize, Result<Answer, Error>),
    Query(usize, Result<Found, Error>),
}

/// What the callers' effects come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    AllSucceed,
    /// Every eighth fails, and its transaction is rolled back.
    SomeFail,
}

/// All callers call for all sagas at once, each in another order: actions, compensations (under two keys) and queries of the same keys.
/// Everyone hears the same, and it happened once or not at all.
pub(crate) async fn race(world: &impl World, effects: Effects) {
    let barrier = Arc::new(Barrier::new(CALLERS));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (world, barrier) = (world.clone(), barrier.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                let mut heard = Vec::new();
                for turn in 0..SAGAS {
                    heard.push(call(&world, effects, caller, (caller + turn) % SAGAS).await);
                }
                heard
            })
        })
        .collect();
    judge_all(world, callers).await;
}

/// The server is killed twice while everyone calls, and whoever gets no answer calls again, as an engine does.
pub(crate) async fn race_a_server_that_dies(world: &impl World, crash: impl Fn()) {
    let answered = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (world, answered) = (world.clone(), answered.clone());
            tokio::spawn(async move {
                let mut heard = Vec::new();
                for turn in 0..SAGAS {
                    heard.push(call_until_answered(&world, caller, (caller + turn) % SAGAS).await);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                heard
            })
        })
        .collect();
    for progress in [CALLERS / 8, CALLERS] {
        while answered.load(Ordering::Relaxed) < progress {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        crash();
    }
    judge_all(world, callers).await;
}

async fn judge_all(world: &impl World, callers: Vec<JoinHandle<Vec<Heard>>>) {
    let mut heard = Vec::new();
    for caller in callers {
        heard.extend(caller.await.unwrap());
    }
    let mut taken = 0;
    for saga in 0..SAGAS {
        taken += judge(world, saga, &heard).await;
    }
    assert_eq!(stock(world).await, 1000 - taken);
}

async fn call_until_answered(world: &impl World, caller: usize, saga: usize) -> Heard {
    loop {
        let heard = call(world, Effects::AllSucceed, caller, saga).await;
        match &heard {
            Heard::Act(_, Ok(_))
            | Heard::Undo(_, Ok(_))
            | Heard::UndoAgain(_, Ok(_))
            | Heard::Query(_, Ok(_)) => {
                return heard;
            }
            Heard::Act(_, Err(e))
            | Heard::Undo(_, Err(e))
            | Heard::UndoAgain(_, Err(e))
            | Heard::Query(_, Err(e)) => {
                assert!(matches!(e, Error::Database(_)), "{e}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

async fn call(world: &impl World, effects: Effects, caller: usize, saga: usize) -> Heard {
    let name = name(saga);
    let script = match effects {
        Effects::SomeFail if caller.is_multiple_of(8) => Script::Fail,
        Effects::SomeFail | Effects::AllSucceed => Script::Succeed,
    };
    // The first sagas are mostly called, the last ones mostly undone, so that either comes first somewhere.
    match (caller * 7 + saga) % (SAGAS + 2) {
        0 => Heard::Query(
            saga,
            world.query(amends_inbox::Key::new(format!("{name}:slot:action")).unwrap()).await,
        ),
        kind if kind > saga + 1 => Heard::Act(saga, world.act(action_of(&name), script).await),
        _ if caller.is_multiple_of(3) => {
            let again = Compensation::new(
                key(&format!("{name}:slot:compensation.2")),
                action_of(&name).key().clone(),
                request(),
            );
            Heard::UndoAgain(saga, world.undo(again, script).await)
        }
        _ => Heard::Undo(saga, world.undo(compensation_of(&name), script).await),
    }
}

fn name(saga: usize) -> String {
    format!("s{saga}")
}

/// Whether all that was heard about a saga agrees with what happened; and how many pieces it holds.
async fn judge(world: &impl World, saga: usize, heard: &[Heard]) -> i64 {
    let story = story(world, &name(saga)).await;
    let acted = vec![format!("act {}", action_of(&name(saga)).key())];
    let undone_too = vec![acted[0].clone(), acted[0].replace("act ", "undo ")];
    assert!(story.is_empty() || story == acted || story == undone_too, "{story:?}");
    let (mut acts, mut undos, mut again, mut queries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for what in heard {
        match what {
            Heard::Act(of, answer) if *of == saga => acts.push(answer),
            Heard::Undo(of, answer) if *of == saga => undos.push(answer),
            Heard::UndoAgain(of, answer) if *of == saga => again.push(answer),
            Heard::Query(of, found) if *of == saga => queries.push(found.as_ref().unwrap()),
            Heard::Act(..) | Heard::Undo(..) | Heard::UndoAgain(..) | Heard::Query(..) => {}
        }
    }
    for calls in [&acts, &undos, &again] {
        assert!(calls.iter().any(|answer| answer.is_ok()), "{calls:?}");
    }
    assert!(!queries.is_empty());
    if story.is_empty() {
        assert!(heard_only(&acts, &too_late()), "{acts:?}");
        assert!(heard_only(&undos, &nothing_to_undo()) && heard_only(&again, &nothing_to_undo()));
    } else {
        assert!(heard_only(&acts, &done()), "{acts:?}");
        // One of the two keys undid it, and the other one heard that it is undone.
        let by_other = Answer::Done(json!({"undone": true}));
        let by_first = heard_only(&undos, &undone()) && heard_only(&again, &by_other);
        let by_second = heard_only(&undos, &by_other) && heard_only(&again, &undone());
        assert!(by_first || by_second, "{story:?}: {undos:?} {again:?}");
    }
    // Not everyone fails, and whoever does not fail undoes.
    assert_ne!(story, acted, "{undos:?}");
    for found in queries {
        match found {
            Found::NeverSeen => {}
            Found::Done(_) => assert!(!story.is_empty()),
            Found::Sealed => assert!(story.is_empty()),
            Found::Rejected { reason } => panic!("{reason}"),
        }
    }
    i64::from(story == acted)
}

/// Whether all heard this one answer, but for those whose own effect failed.
fn heard_only(answers: &[&Result<Answer, Error>], expected: &Answer) -> bool {
    let is_planned = |error: &Error| matches!(error, Error::Effect(e) if e.to_string() == "planned");
    answers.iter().all(|answer| match answer {
        Ok(answer) => answer == expected,
        Err(e) => is_planned(e),
    })
}
