//! Which moves need not be explored because another order of the same moves is. Why, is said in [`crate::search`].

use std::collections::BTreeSet;

use amends_core::definition::OnExhausted;
use amends_core::{Direction, Knowledge, OpKind, OpRef};

use crate::moves::{Costed, Move, Own, Reply};
use crate::scene::Scene;
use crate::state::State;
use crate::world::Verdict;

/// Leaves out moves that are explored in another order.
pub(crate) fn reduce(scene: &Scene, state: &State, faults_left: u8, moves: &mut Vec<Costed>) {
    let moving = moving_steps(moves);
    let Some(first) = first_step(state, &moving) else { return };
    // A step that rests will not have its turn later: what can happen to it is kept.
    let comes_later =
        |happens: &Move| happens.step().is_some_and(|step| step != first && moving.contains(&step));
    if state.saga.direction == Direction::Undo {
        return moves.retain(|(happens, _)| !comes_later(happens));
    }
    let turns_by_itself = moves.iter().any(|(happens, faults)| *faults == 0 && happens.step().is_none())
        || scene.ops.iter().any(|op| may_turn(scene, state, *op));
    if turns_by_itself {
        return;
    }
    match faults_left {
        0 => moves.retain(|(happens, _)| !comes_later(happens)),
        1 => moves.retain(|(happens, faults)| {
            *faults == 0 || !comes_later(happens) || turns(scene, state, happens)
        }),
        _ => {}
    }
}

/// The steps that go on without a further fault.
fn moving_steps(moves: &[Costed]) -> BTreeSet<usize> {
    moves.iter().filter(|(_, faults)| *faults == 0).filter_map(|(happens, _)| happens.step()).collect()
}

/// The step whose turn it is: one that is in trouble, if there is one, so that stories are short.
fn first_step(state: &State, moving: &BTreeSet<usize>) -> Option<usize> {
    let in_trouble = |step: &&usize| {
        let [action, compensation] = &state.world[**step];
        let known = &state.saga.steps[**step];
        action.on_wire > 0
            || compensation.on_wire > 0
            || [&known.action, &known.compensation].iter().any(|op| op.settled.is_none() && op.sends > 1)
    };
    moving.iter().find(in_trouble).or_else(|| moving.first()).copied()
}

/// Whether an action may turn the saga round without a further fault.
fn may_turn(scene: &Scene, state: &State, op: OpRef) -> bool {
    let known = state.saga.op(op);
    if op.kind == OpKind::Compensation || !known.enabled {
        return false;
    }
    let world = state.world(op);
    match known.knowledge() {
        Knowledge::Done | Knowledge::Rejected | Knowledge::Sealed => false,
        Knowledge::Unsent | Knowledge::Possible => {
            let may_be_void = scene.operation(op).seals_after_ms.is_some() && known.open > 0;
            world.refused || world.tombstone || (may_be_void && is_last_attempt(scene, state, op))
        }
    }
}

/// Whether what costs a fault may turn the saga round, then or later.
fn turns(scene: &Scene, state: &State, happens: &Move) -> bool {
    match *happens {
        Move::Answer { reply: Reply::Arrives(Verdict::Refuses) | Reply::Intercepted, .. }
        | Move::Callback { done: false, .. }
        | Move::Statement { done: false, .. }
        | Move::Claims { .. }
        | Move::Cancel
        | Move::Deadline
        | Move::Crash { .. } => true,
        Move::Ask { op, before, .. } => before.own == Own::Refused || is_last_attempt(scene, state, op),
        Move::Answer { op, .. } | Move::Wait { op } => is_last_attempt(scene, state, op),
        Move::Callback { done: true, .. } | Move::Statement { done: true, .. } => false,
    }
}

/// Whether an action's attempts are over if this one comes to nothing, and that turns the saga round.
fn is_last_attempt(scene: &Scene, state: &State, op: OpRef) -> bool {
    let (operation, known) = (scene.operation(op), state.saga.op(op));
    let next_ms = operation.timeout_ms.saturating_mul(2).saturating_add(operation.retry.max_interval_ms);
    let is_last = known.attempts >= operation.retry.max_attempts
        || known.budget_used_ms.saturating_add(next_ms) > operation.retry.budget_ms;
    is_last && operation.on_exhausted == OnExhausted::Compensate
}
