//! Makes states that differ in nothing that matters the same state.

use amends_core::definition::Operation;
use amends_core::{OpRef, OpState, ParkReason, Phase, Saga, Settled, Time, UndoReason};

use super::State;
use crate::scene::{NOW, Scene};
use crate::world::OpWorld;

/// How far away a deadline is kept that has not come: it comes when the exploration says so.
const FAR_MS: u64 = 10 * 365 * 86_400_000;

/// Brings a state into its normal form: what is only for people is left out, counters and times that no rule will ask for
/// again are zero, and steps that are over hold nothing.
pub(crate) fn normalise(scene: &Scene, state: &mut State) {
    whole(&mut state.saga);
    nodes(scene, state);
    for index in 0..state.saga.steps.len() {
        if state.saga.steps[index].undone {
            // What was still on its way was judged when the step was declared undone.
            let step = &mut state.saga.steps[index];
            step.action = OpState::new();
            step.compensation = OpState::new();
            state.world[index] = Default::default();
        }
    }
    for op in &scene.ops {
        if !state.saga.steps[op.step].undone {
            one(scene, state, *op);
        }
    }
}

fn whole(saga: &mut Saga) {
    saga.seq = 1;
    saga.created_at = NOW;
    saga.updated_at = NOW;
    saga.reached = None;
    saga.last_done = None;
    // Three take-overs in a row make a saga a person's by design: that is not explored.
    saga.take_overs_in_a_row = 0;
    saga.contradictions.clear();
    saga.deadline_at = saga.deadline_at.map(|_| NOW.plus_ms(FAR_MS));
    saga.undo = saga.undo.take().map(|_| (UndoReason::Cancel, None));
    saga.undo_pending = saga.undo_pending.take().map(|_| (UndoReason::Cancel, None));
    saga.stuck = saga.stuck.take().map(|_| String::new());
    if let Some(accepting) = &mut saga.accepting {
        accepting.refused = 0;
        accepting.due = NOW;
    }
}

/// Numbers the nodes anew: the one that has the saga is 1, those that watched an operation before follow. Only where a query can
/// prove something does it matter since when.
fn nodes(scene: &Scene, state: &mut State) {
    for op in &scene.ops {
        if scene.operation(*op).seals_after_ms.is_none() {
            state.op_mut(*op).quiet_before.clear();
        }
    }
    let former = former_nodes(scene, state);
    for op in &scene.ops {
        for (epoch, _) in &mut state.op_mut(*op).quiet_before {
            let place = former.iter().position(|known| known == epoch).unwrap_or_default();
            *epoch = 2 + place as u64;
        }
    }
    state.saga.epoch = 1;
}

/// The epochs of nodes that watched an operation before, and may come back; each once.
pub(crate) fn former_nodes(scene: &Scene, state: &State) -> Vec<u64> {
    let mut epochs: Vec<u64> = scene
        .ops
        .iter()
        .flat_map(|op| state.saga.op(*op).quiet_before.iter().map(|(epoch, _)| *epoch))
        .collect();
    epochs.sort_unstable();
    epochs.dedup();
    epochs
}

fn one(scene: &Scene, state: &mut State, op: OpRef) {
    let promise = scene.promise(op);
    promise.tidy(state.world_mut(op));
    let known = state.op_mut(op);
    if known.settled.is_some() {
        let settled = known.settled.take();
        let dead = matches!(known.phase, Phase::Dead { .. });
        *known = OpState { enabled: known.enabled, sends: known.sends.min(1), settled, ..OpState::new() };
        if dead {
            known.phase = Phase::Dead { reason: String::new() };
        }
        settled_reason(known);
        let world = state.world_mut(op);
        *world = OpWorld {
            attempts: 0,
            spent_ms: 0,
            refused: world.refused && world.on_wire > 0,
            stale_refusal: false,
            ..world.clone()
        };
        return;
    }
    unsettled(known, scene.operation(op), scene.plan(op).serial.clone());
}

fn settled_reason(known: &mut OpState) {
    if let Some(Settled::Rejected { reason }) = &mut known.settled {
        reason.clear();
    }
}

fn unsettled(known: &mut OpState, operation: &Operation, serial: Option<serde_json::Value>) {
    known.reason = None;
    known.error_class = None;
    known.asked = 0;
    known.generation = 1;
    // Only the first send is told from the others.
    known.sends = known.sends.min(2);
    known.resends = known.resends.min(1);
    known.serial = known.serial.take().and(serial);
    // A first send of this very moment is rendered with every decision; a millisecond later it no longer is.
    known.first_send_at = known.first_send_at.map(|at| Time(at.0.min(NOW.0 - 1)));
    // What is longer ago than anything asks for is as good as just long enough ago.
    let seals_after_ms = operation.seals_after_ms.map_or(0, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let oldest = Time(NOW.0.saturating_sub(seals_after_ms));
    known.quiet_since = if known.open > 0 { known.quiet_since.max(oldest) } else { NOW };
    for (_, since) in &mut known.quiet_before {
        *since = (*since).max(oldest);
    }
    match &mut known.phase {
        Phase::Dead { reason } => reason.clear(),
        Phase::Parked { reason, .. } => *reason = ParkReason::BreakerOpen,
        Phase::Idle
        | Phase::Calling
        | Phase::Send { .. }
        | Phase::Ask { .. }
        | Phase::InProgress { .. }
        | Phase::Verify { .. } => {}
    }
}
