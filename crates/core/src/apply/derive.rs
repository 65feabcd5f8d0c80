//! What follows from the state alone: whose turn it is, what is undone.

use crate::Time;
use crate::definition::{Definition, Operation, StepKind};
use crate::saga::{Direction, Knowledge, OpState, Phase, Saga, Settled};

/// Derives what follows from the state alone, until nothing more does.
pub(super) fn derive(saga: &mut Saga, at: Time) {
    if saga.ended.is_some() || saga.accepting.is_some() || saga.stuck.is_some() {
        return;
    }
    let definition = saga.definition.clone();
    loop {
        let changed = match saga.direction {
            Direction::Forward => (0..saga.steps.len())
                .fold(false, |changed, step| forward(saga, &definition, step, at) | changed),
            Direction::Undo => (0..saga.steps.len())
                .rev()
                .fold(false, |changed, step| undo(saga, &definition, step, at) | changed),
        };
        if !changed {
            return;
        }
    }
}

fn forward(saga: &mut Saga, definition: &Definition, index: usize, at: Time) -> bool {
    let step = &definition.steps[index];
    let mut changed = false;
    if !saga.steps[index].started {
        if step.after.iter().any(|before| !saga.steps[*before].done) {
            return false;
        }
        saga.steps[index].started = true;
        changed = true;
        // After a loss it may be settled before its turn.
        let is_known = saga.steps[index].action.open > 0 && saga.steps[index].action.settled.is_some();
        if let Some(action) = step.action.as_ref().filter(|_| !saga.steps[index].skipped && !is_known) {
            enable(&mut saga.steps[index].action, action, at);
        }
    }
    let state = &mut saga.steps[index];
    if state.done {
        return changed;
    }
    let refused = match state.action.knowledge() {
        Knowledge::Rejected | Knowledge::Sealed => true,
        Knowledge::Unsent | Knowledge::Possible | Knowledge::Done => false,
    };
    if state.skipped || step.action.is_none() || state.action.knowledge() == Knowledge::Done {
        state.done = true;
        saga.last_done = Some(index);
        if let Some(reaches) = &step.reaches {
            saga.reached = Some(reaches.clone());
        }
        return true;
    }
    // After the pivot nothing is undone: a refusal there is a person's.
    if refused && step.kind == StepKind::Retriable && !matches!(state.action.phase, Phase::Dead { .. }) {
        state.action.phase = Phase::Dead { reason: refusal(&state.action) };
        return true;
    }
    changed
}

fn refusal(state: &OpState) -> String {
    match &state.settled {
        Some(Settled::Rejected { reason }) => format!("refused: {reason}"),
        Some(Settled::Sealed) => "it will never be executed under this key".into(),
        Some(Settled::Done { .. }) | None => "refused".into(),
    }
}

fn undo(saga: &mut Saga, definition: &Definition, index: usize, at: Time) -> bool {
    let step = &definition.steps[index];
    if saga.steps[index].undone {
        return false;
    }
    let mut changed = stop_waiting_to_send(&mut saga.steps[index].action);
    if step.dependants.iter().any(|after| !saga.steps[*after].undone) {
        return changed;
    }
    let state = &mut saga.steps[index];
    // After a loss its turn may have come without a trace.
    let never_sent = !state.started && state.action.open == 0;
    let nothing_to_undo = never_sent || state.skipped || step.action.is_none() || step.effect_none;
    let over = nothing_to_undo
        || match state.action.knowledge() {
            Knowledge::Unsent => !state.action.is_calling(),
            Knowledge::Rejected | Knowledge::Sealed => true,
            Knowledge::Possible | Knowledge::Done => state.compensation.knowledge() == Knowledge::Done,
        };
    if over {
        state.undone = true;
        if !state.action.is_calling() {
            state.action.phase = Phase::Idle;
        }
        state.compensation.phase = Phase::Idle;
        return true;
    }
    let Some(compensation) = &step.compensation else { return changed };
    let wanted = match state.action.knowledge() {
        Knowledge::Done => true,
        // Rule 4: the fence answers for an action whose outcome is not known, once its calls in flight have ended.
        Knowledge::Possible => compensation.fenced && !state.action.is_calling(),
        Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed => false,
    };
    if wanted && !state.compensation.enabled {
        enable(&mut state.compensation, compensation, at);
        if !state.action.is_calling() {
            state.action.phase = Phase::Idle;
        }
        changed = true;
    }
    let refused = match state.compensation.knowledge() {
        Knowledge::Rejected | Knowledge::Sealed => true,
        Knowledge::Unsent | Knowledge::Possible | Knowledge::Done => false,
    };
    if refused && !matches!(state.compensation.phase, Phase::Dead { .. }) {
        state.compensation.phase = Phase::Dead { reason: refusal(&state.compensation) };
        changed = true;
    }
    changed
}

/// While undoing, an action that was not sent is not sent any more.
fn stop_waiting_to_send(state: &mut OpState) -> bool {
    let waiting = matches!(state.phase, Phase::Send { .. } | Phase::Parked { .. } | Phase::Dead { .. });
    if waiting && state.knowledge() == Knowledge::Unsent {
        state.phase = Phase::Idle;
        return true;
    }
    false
}

/// Enables an operation: from here its key, payload and facts are fixed (rule 5), and unless it needs an entry of its
/// own, its first send is allowed (rule 1).
fn enable(state: &mut OpState, operation: &Operation, at: Time) {
    state.enabled = true;
    if state.open > 0 {
        // After a loss it may have been sent already: it is sent as what is unknown is, or not at all.
        state.phase = Phase::Send { due: at, waited_ms: 0, verifying: false };
        return;
    }
    if operation.first_send_is_implied() {
        state.sends += 1;
        state.open = 1;
        state.attempts = 1;
        state.first_send_at = Some(at);
        state.not_quiet_until(at);
        state.verifying = false;
        state.phase = Phase::Calling;
    } else {
        state.phase = Phase::Send { due: at, waited_ms: 0, verifying: false };
    }
}
