//! Many callers at once.

use std::sync::Arc;

use amends_inbox::{Answer, Error, Found};
use tokio::sync::Barrier;

use crate::world::{
    Script, World, action_of, compensation_of, done, nothing_to_undo, stock, story, too_late, undone,
};

const CALLERS: usize = 64;
const SAGAS: usize = 6;

/// What a caller heard.
enum Heard {
    Act(usize, Result<Answer, Error>),
    Undo(usize, Result<Answer, Error>),
    Query(usize, Result<Found, Error>),
}

/// All callers call for all sagas at once, each in another order: actions, compensations and queries of the same keys. Every eighth effect fails.
pub(crate) async fn everyone_hears_the_same_and_it_happens_once_or_not_at_all(world: &impl World) {
    let barrier = Arc::new(Barrier::new(CALLERS));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (world, barrier) = (world.clone(), barrier.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                let mut heard = Vec::new();
                for turn in 0..SAGAS {
                    heard.push(call(&world, caller, (caller + turn) % SAGAS).await);
                }
                heard
            })
        })
        .collect();
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

async fn call(world: &impl World, caller: usize, saga: usize) -> Heard {
    let name = name(saga);
    let script = if caller.is_multiple_of(8) { Script::Fail } else { Script::Succeed };
    // The first sagas are mostly called, the last ones mostly undone, so that either comes first somewhere.
    match (caller * 7 + saga) % (SAGAS + 2) {
        0 => Heard::Query(
            saga,
            world.query(amends_inbox::Key::new(format!("{name}:slot:action")).unwrap()).await,
        ),
        kind if kind > saga + 1 => Heard::Act(saga, world.act(action_of(&name), script).await),
        _ => Heard::Undo(saga, world.undo(compensation_of(&name), script).await),
    }
}

fn name(saga: usize) -> String {
    format!("s{saga}")
}

/// Whether all that was heard about a saga agrees with what happened; and how many pieces it holds.
async fn judge(world: &impl World, saga: usize, heard: &[Heard]) -> i64 {
    let story = story(world, &name(saga)).await;
    let key = format!("{}:slot:action", name(saga));
    let acted = vec![format!("act {key}")];
    let undone_too = vec![format!("act {key}"), format!("undo {key}")];
    assert!(story.is_empty() || story == acted || story == undone_too, "{story:?}");
    let (mut acts, mut undos, mut queries) = (Vec::new(), Vec::new(), Vec::new());
    for what in heard {
        match what {
            Heard::Act(of, answer) if *of == saga => acts.push(answer),
            Heard::Undo(of, answer) if *of == saga => undos.push(answer),
            Heard::Query(of, found) if *of == saga => queries.push(found.as_ref().unwrap()),
            Heard::Act(..) | Heard::Undo(..) | Heard::Query(..) => {}
        }
    }
    assert!(!acts.is_empty() && !undos.is_empty() && !queries.is_empty());
    let (act, undo) = match story.len() {
        0 => (too_late(), nothing_to_undo()),
        _ => (done(), undone()),
    };
    assert!(heard_only(&acts, &act), "{story:?}: {acts:?}");
    assert!(heard_only(&undos, &undo), "{story:?}: {undos:?}");
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
