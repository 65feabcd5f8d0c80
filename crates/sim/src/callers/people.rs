//! People: they look at sagas and act on them. They are honest, and find out before they say something; what they know may be
//! old by the time they say it, which is the engine's to notice.

use std::sync::Arc;
use std::time::Duration;

use amends_core::definition::Idempotency;
use amends_core::{By, Knowledge, OpRef, Person, PersonAction, Phase, Problem, Saga, SagaId, Status, status};
use amends_engine::{Refused, View};
use amends_store::ListFilter;
use tokio::time::sleep;

use super::ask::{refusal, saw};
use super::{Asked, ask};
use crate::event::{Event, Heard};
use crate::sim::Sim;

/// A person who looks around for as long as there are faults.
pub(crate) async fn person(sim: Arc<Sim>) {
    while !sim.is_calm() {
        let (pause, acts) = {
            let mut state = sim.state();
            (state.dice.callers.ms(200..=4_000), state.dice.callers.chance(sim.options.callers.act))
        };
        sleep(pause).await;
        let Some(id) = any_saga(&sim) else { continue };
        let asked = ask(&sim, |engine| {
            let id = id.clone();
            async move { engine.saga(&id).await }
        });
        let Asked::Answer(Ok(view)) = asked.await else { continue };
        saw(&sim, &view);
        if let View::Whole(saga) = &view
            && acts
            && let Some(action) = choose(&sim, saga)
        {
            let stale = sim.state().dice.callers.chance(0.1);
            drop(act(&sim, &id, Some(saga.seq - u64::from(stale && saga.seq > 1)), action).await);
        }
        read_journal(&sim, &id).await;
        look_at_lists(&sim).await;
    }
}

/// Reads a page of a journal.
async fn read_journal(sim: &Arc<Sim>, id: &SagaId) {
    let after = sim.state().dice.callers.within(0..=4);
    let asked = ask(sim, |engine| {
        let id = id.clone();
        async move { engine.journal(&id, after, 3).await }
    });
    if let Asked::Answer(Ok(page)) = asked.await {
        sim.record(&Event::Read { saga: id.clone(), after, entries: page.entries });
    }
}

fn any_saga(sim: &Sim) -> Option<SagaId> {
    let mut state = sim.state();
    let state = &mut *state;
    let ids: Vec<&SagaId> = state.truth.sagas.keys().collect();
    if ids.is_empty() { None } else { Some((*state.dice.callers.pick(&ids)).clone()) }
}

/// Lists answer whatever else goes on.
async fn look_at_lists(sim: &Arc<Sim>) {
    let asked = ask(sim, |engine| async move {
        engine.list(&ListFilter::default(), None, 2).await?;
        engine.dead_groups(2).await?;
        engine.stats().await.map(|_| ())
    });
    if let Asked::Answer(Err(refused)) = asked.await {
        sim.note(format_args!("lists: {refused}"));
    }
}

/// Cancels a saga.
pub(crate) async fn cancel(sim: &Arc<Sim>, id: &SagaId) {
    drop(act(sim, id, None, PersonAction::Cancel).await);
}

/// Acts on a saga, and tells what was heard.
pub(crate) async fn act(
    sim: &Arc<Sim>,
    id: &SagaId,
    version: Option<u64>,
    action: PersonAction,
) -> Result<View, Option<Refused>> {
    let mark = format!("mark {:016x}", sim.state().dice.callers.number());
    // Who cancels or skips again gets the same answer again.
    let may_be_nothing = matches!(action, PersonAction::Cancel | PersonAction::Skip { .. });
    sim.note(format_args!("person {mark} wants {action:?} of {id} at {version:?}"));
    let person = Person { by: By { who: "person".into(), reason: mark.clone() }, version, action };
    let asked = ask(sim, |engine| {
        let id = id.clone();
        async move { engine.act(&id, person).await }
    });
    let asked = asked.await;
    let (heard, result) = match asked {
        Asked::Nobody => return Err(None),
        Asked::Unclear => (Heard::Unclear, Err(None)),
        Asked::Answer(Ok(view)) => {
            saw(sim, &view);
            (Heard::Done, Ok(view))
        }
        Asked::Answer(Err(refused)) => {
            let heard = match &refused {
                // The store may have failed when what was done already was to be shown.
                Refused::Store(_) => Heard::Unclear,
                Refused::Core { problem: Problem::StaleVersion, .. } => Heard::Stale,
                refused => refusal(refused).map_or(Heard::Unclear, Heard::Refused),
            };
            (heard, Err(Some(refused)))
        }
    };
    sim.record(&Event::Acted { saga: id.clone(), mark, seen: version, may_be_nothing, heard });
    result
}

/// What an honest person would do about a saga.
fn choose(sim: &Sim, saga: &Saga) -> Option<PersonAction> {
    let mut actions = vec![PersonAction::Cancel];
    for op in saga.ops() {
        let step = saga.definition.steps[op.step].name.clone();
        let state = saga.op(op);
        let dead = matches!(state.phase, Phase::Dead { .. });
        let idempotent = saga.operation(op).is_some_and(|o| o.idempotency != Idempotency::None);
        let harmless = state.knowledge() == Knowledge::Unsent
            || (idempotent && !saga.operation(op).is_some_and(|o| state.key_expired(o, sim.now())));
        let retry = |force, new_key| PersonAction::Retry {
            step: step.clone(),
            operation: Some(op.kind),
            force,
            new_key,
        };
        if state.enabled && state.settled.is_none() {
            actions.push(retry(harmless, false));
            actions.push(retry(false, false));
        }
        if dead && matches!(state.knowledge(), Knowledge::Rejected | Knowledge::Sealed) {
            actions.push(retry(false, true));
        }
        if state.knowledge() == Knowledge::Possible && (dead || matches!(state.phase, Phase::Verify { .. })) {
            actions.extend(find_out(sim, saga, op));
        }
        if saga.steps.len() > 1 && op.kind == amends_core::OpKind::Action {
            actions.push(PersonAction::Skip { step });
        }
    }
    match status::status(saga) {
        Status::Dead | Status::Unknown => {
            if sim.state().dice.callers.chance(0.1) {
                actions.push(PersonAction::Close);
            }
        }
        Status::Accepting | Status::Running | Status::Compensating => {}
        Status::Completed | Status::Compensated | Status::Resolved => actions.truncate(1),
    }
    Some(sim.state().dice.callers.pick(&actions).clone())
}

/// Asks the participant what became of an operation, and lets it make sure that what has not happened never will.
fn find_out(sim: &Sim, saga: &Saga, op: OpRef) -> Option<PersonAction> {
    let key = saga.key(op);
    let now = sim.now();
    let step = saga.definition.steps[op.step].name.clone();
    let state = &mut *sim.state();
    let done = state.books.done(key.as_str()).cloned();
    if done.is_none() && !(state.dice.callers.chance(0.5) && state.books.seal(key.as_str(), now)) {
        return None;
    }
    Some(PersonAction::Resolve { step, operation: Some(op.kind), done })
}

/// How long a person waits before looking again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(20);
