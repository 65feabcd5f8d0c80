//! What each kind of entry changes by itself.

use std::sync::Arc;

use crate::answer::{Outcome, QueryOutcome};
use crate::definition::Idempotency;
use crate::saga::{Accepting, Direction, Knowledge, OpState, Phase, Saga, Settled};
use crate::{Entry, EntryKind, OpRef, Time};

pub(super) fn change(saga: &mut Saga, entry: &Entry) {
    let at = entry.at;
    match &entry.kind {
        EntryKind::Submitted { .. } => {}
        EntryKind::Accepted => saga.accepting = None,
        EntryKind::AcceptRefused { due, .. } => {
            let refused = saga.accepting.as_ref().map_or(0, |accepting| accepting.refused);
            saga.accepting = Some(Accepting { due: *due, refused: refused + 1 });
        }
        EntryKind::TakenOver { epoch, lapsed, busy, next } => {
            saga.take_overs_in_a_row = match (lapsed, busy) {
                (true, true) => saga.take_overs_in_a_row + 1,
                // It only waited: nothing of it can have stopped the former owner.
                (true, false) => saga.take_overs_in_a_row,
                // Who let it go in order was not stopped by it.
                (false, _) => 0,
            };
            taken_over(saga, *epoch, next, at);
        }
        EntryKind::Lost { loss, next } => {
            saga.loss = *loss;
            lost(saga, next, at);
        }
        EntryKind::Sending { op, attempt, verifying, waited_ms, .. } => {
            sending(saga.op_mut(*op), *attempt, *verifying, *waited_ms, at);
        }
        EntryKind::Held { op, next, .. } => {
            let state = saga.op_mut(*op);
            not_sent(state);
            go(state, next.clone(), at);
        }
        EntryKind::Answered { op, outcome, settles, took_ms, next, .. } => {
            answered(saga.op_mut(*op), outcome, *settles, *took_ms, at);
            go(saga.op_mut(*op), next.clone(), at);
        }
        EntryKind::Asked { op, outcome, void, next } => {
            asked(saga.op_mut(*op), outcome, *void);
            go(saga.op_mut(*op), next.clone(), at);
        }
        EntryKind::Waited { op, next } => go(saga.op_mut(*op), next.clone(), at),
        EntryKind::Unrenderable { op, path } => {
            let state = saga.op_mut(*op);
            if state.is_calling() {
                not_sent(state);
            }
            let reason = format!("its request needs `{path}`, which is not there");
            state.error_class = Some("missing-fact".into());
            state.reason = Some(reason.clone());
            go(state, Phase::Dead { reason }, at);
        }
        EntryKind::Settled { op, settled, by, .. } => {
            let state = saga.op_mut(*op);
            match settled {
                Settled::Done { .. } => {
                    state.reason = None;
                    state.error_class = None;
                }
                Settled::Rejected { reason } => trouble(state, "rejected", reason),
                Settled::Sealed => trouble(state, "sealed", "it will never be executed under this key"),
            }
            state.settled = Some(settled.clone());
            go(state, Phase::Idle, at);
            if by.is_some() {
                saga.stuck = None;
                people_took_it_on(saga, at);
            }
        }
        EntryKind::Hinted { op, said, serial, next } => {
            let state = saga.op_mut(*op);
            state.reason = Some(said.clone());
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
            go(state, next.clone(), at);
        }
        EntryKind::Contradiction { op, evidence, .. } => saga.contradictions.push((*op, evidence.clone())),
        EntryKind::Undoing { reason, by } => {
            saga.direction = Direction::Undo;
            saga.undo = Some((reason.clone(), by.clone()));
            saga.undo_pending = None;
            saga.accepting = None;
            saga.stuck = None;
            begin_settling(saga, at);
        }
        EntryKind::UndoPending { reason, by } => saga.undo_pending = Some((reason.clone(), by.clone())),
        EntryKind::UndoRefused => saga.undo_pending = None,
        EntryKind::Overdue => saga.overdue = true,
        EntryKind::Retry { op, force, new_key, next, .. } => {
            retry(saga.op_mut(*op), *force, *new_key);
            go(saga.op_mut(*op), next.clone(), at);
            saga.stuck = None;
            people_took_it_on(saga, at);
        }
        EntryKind::Skipped { step, .. } => {
            saga.steps[*step].skipped = true;
            go(&mut saga.steps[*step].action, Phase::Idle, at);
            saga.stuck = None;
            people_took_it_on(saga, at);
        }
        EntryKind::Stuck { reason } => saga.stuck = Some(reason.clone()),
        EntryKind::Ended { how, .. } => saga.ended = Some(*how),
    }
}

/// A deadline that passed before people moved a saga is theirs to judge; it must not undo their work at the next tick.
fn people_took_it_on(saga: &mut Saga, at: Time) {
    if saga.deadline_at.is_some_and(|deadline| deadline <= at) {
        saga.overdue = true;
    }
}

fn taken_over(saga: &mut Saga, epoch: u64, next: &[(OpRef, Phase)], at: Time) {
    let former = std::mem::replace(&mut saga.epoch, epoch);
    saga.moved_nothing = if next.is_empty() { saga.moved_nothing + 1 } else { 0 };
    for op in saga.ops().collect::<Vec<_>>() {
        watch(saga.op_mut(op), former, epoch, at);
    }
    for (op, phase) in next {
        let state = saga.op_mut(*op);
        state.reason = Some("the node that sent it stopped before the answer came".into());
        state.error_class = Some("unknown".into());
        go(state, phase.clone(), at);
    }
}

/// Entries are gone: whatever is not settled may have been sent, by whoever wrote them, at any time since the saga began.
fn lost(saga: &mut Saga, next: &[(OpRef, Phase)], at: Time) {
    let since = saga.created_at;
    for op in saga.ops().collect::<Vec<_>>() {
        if saga.steps[op.step].undone || saga.op(op).settled.is_some() {
            continue;
        }
        let state = saga.op_mut(op);
        state.sends += 1;
        state.open += 1;
        state.first_send_at.get_or_insert(since);
        state.not_quiet_until(at);
    }
    for (op, phase) in next {
        let state = saga.op_mut(*op);
        state.reason = Some("it may have been sent before the store lost data".into());
        state.error_class = Some("unknown".into());
        state.verify_since = None;
        state.verified = 0;
        go(state, phase.clone(), at);
    }
}

/// How many former nodes' watches are remembered; one that is forgotten only waits longer for its proof.
const WATCHES_MAX: usize = 16;

/// Another node watches an operation that may have been executed, from now on or since it first did.
fn watch(state: &mut OpState, former: u64, epoch: u64, at: Time) {
    if state.open == 0 {
        return;
    }
    if former != epoch {
        state.quiet_before.push((former, state.quiet_since));
    }
    let known = state.quiet_before.iter().position(|(of, _)| *of == epoch);
    state.quiet_since = match known {
        // A call in flight at a take-over may have left until then.
        Some(index) if !state.is_calling() => state.quiet_before.remove(index).1,
        Some(_) | None => at,
    };
    if state.is_calling() {
        state.quiet_before.clear();
    }
    if state.quiet_before.len() > WATCHES_MAX {
        state.quiet_before.remove(0);
    }
}

fn sending(state: &mut OpState, attempt: u32, verifying: bool, waited_ms: u64, at: Time) {
    if state.open > 0 {
        state.resends += 1;
    }
    state.forced = false;
    state.sends = attempt;
    state.open += 1;
    state.verifying = verifying;
    if !verifying {
        state.attempts += 1;
        state.budget_used_ms = state.budget_used_ms.saturating_add(waited_ms);
    }
    state.first_send_at.get_or_insert(at);
    state.not_quiet_until(at);
    go(state, Phase::Calling, at);
}

/// The attempt in flight was not sent at all: it counts for nothing.
fn not_sent(state: &mut OpState) {
    state.open = state.open.saturating_sub(1);
    if !state.verifying {
        state.attempts = state.attempts.saturating_sub(1);
    }
    if state.open == 0 {
        state.first_send_at = None;
    }
}

fn answered(state: &mut OpState, outcome: &Outcome, settles: bool, took_ms: u64, at: Time) {
    // A configuration fault uses no attempt, so the next send has the same slot of the budget.
    if !state.verifying && !matches!(outcome, Outcome::Misconfigured { .. }) {
        state.budget_used_ms = state.budget_used_ms.saturating_add(took_ms);
    }
    // The request cannot have left later than its answer came, nor than the call was given up.
    state.not_quiet_until(at);
    if !matches!(outcome, Outcome::Misconfigured { .. }) {
        state.parked = None;
    }
    match outcome {
        Outcome::Done { fact, serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
            if settles {
                state.settled = Some(Settled::Done { fact: Arc::new(fact.clone()), serial: serial.clone() });
                state.reason = None;
                state.error_class = None;
            }
        }
        Outcome::Rejected { reason, .. } => {
            trouble(state, "rejected", reason);
            if settles {
                state.settled = Some(Settled::Rejected { reason: reason.clone() });
            }
        }
        Outcome::NotExecuted { reason, .. } => {
            state.open = state.open.saturating_sub(1);
            trouble(state, "unavailable", reason);
        }
        Outcome::Misconfigured { reason } => {
            not_sent(state);
            trouble(state, "configuration", reason);
        }
        Outcome::InProgress { serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
        }
        Outcome::Unknown { reason } => trouble(state, "unknown", reason),
    }
}

fn trouble(state: &mut OpState, class: &str, reason: &str) {
    state.error_class = Some(class.into());
    state.reason = Some(reason.into());
}

fn asked(state: &mut OpState, outcome: &QueryOutcome, void: bool) {
    state.asked += 1;
    match outcome {
        QueryOutcome::Done { fact, serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
            if state.settled.is_none() {
                state.settled = Some(Settled::Done { fact: Arc::new(fact.clone()), serial: serial.clone() });
            }
        }
        QueryOutcome::Rejected { reason } => {
            trouble(state, "rejected", reason);
            if state.settled.is_none() {
                state.settled = Some(Settled::Rejected { reason: reason.clone() });
            }
        }
        QueryOutcome::Sealed => {
            trouble(state, "sealed", "its query says that it will never be executed under this key");
            if state.settled.is_none() {
                state.settled = Some(Settled::Sealed);
            }
        }
        QueryOutcome::InProgress { serial } => {
            if serial.is_some() {
                state.serial.clone_from(serial);
            }
        }
        QueryOutcome::NeverSeen { .. } => {
            if void {
                state.open = 0;
                state.voided = true;
                state.resends = 0;
                state.verify_since = None;
                state.verified = 0;
            }
        }
        QueryOutcome::NoAnswer { reason } => {
            if state.reason.is_none() {
                state.reason = Some(format!("its query was not answered: {reason}"));
            }
        }
    }
}

fn retry(state: &mut OpState, force: bool, new_key: bool) {
    state.attempts = 0;
    state.budget_used_ms = 0;
    state.resends = 0;
    state.verify_since = None;
    state.verified = 0;
    state.parked = None;
    state.settled = None;
    state.forced = force;
    if force {
        // Rule 11: past its life a key is only as good as a person's word; from here it counts as new.
        state.first_send_at = None;
    }
    if new_key {
        state.generation += 1;
        state.voided = false;
        state.open = 0;
        state.first_send_at = None;
        state.serial = None;
    }
}

/// Moves an operation to its next phase, remembering what outlives a phase.
fn go(state: &mut OpState, next: Phase, at: Time) {
    match &next {
        Phase::Verify { .. } => {
            if state.verify_since.is_none() {
                state.verify_since = Some(at);
            } else {
                state.verified += 1;
            }
        }
        Phase::Parked { .. } => {
            state.parked = Some(state.parked.map_or((at, 0), |(since, n)| (since, n + 1)));
        }
        Phase::Idle
        | Phase::Calling
        | Phase::Send { .. }
        | Phase::Ask { .. }
        | Phase::InProgress { .. }
        | Phase::Dead { .. } => {}
    }
    state.phase = next;
}

/// When a saga turns round, what its actions still possible do next (rule 4): they are settled, at once.
fn begin_settling(saga: &mut Saga, at: Time) {
    for index in 0..saga.steps.len() {
        let op = OpRef::action(index);
        let Some(operation) = saga.operation(op).cloned() else { continue };
        let (can_ask, is_started) = (saga.can_ask(op), saga.steps[index].started);
        let state = saga.op_mut(op);
        if state.knowledge() != Knowledge::Possible {
            continue;
        }
        let can_resend = operation.idempotency != Idempotency::None && !state.key_expired(&operation, at);
        match &state.phase {
            // With `seals_after` the query alone settles it: a resend would start the time anew.
            Phase::Send { .. } if operation.seals_after_ms.is_some() && can_ask => {
                state.phase = Phase::Ask { due: at, n: 0 }
            }
            Phase::Verify { .. } if can_ask || can_resend => state.phase = Phase::Verify { due: at },
            Phase::Dead { .. } if can_ask || can_resend => {
                state.verify_since = Some(at);
                state.verified = 0;
                state.phase = Phase::Verify { due: at };
            }
            // Its turn had not come when the store lost data, or that is what is left of the journal.
            Phase::Idle if !is_started => state.phase = Phase::Ask { due: at, n: 0 },
            Phase::Idle
            | Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => {}
        }
    }
}
