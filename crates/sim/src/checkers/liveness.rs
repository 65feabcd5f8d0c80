//! Once faults have stopped every saga ends by itself, but for those that a declared guarantee leaves to a person; and those a
//! person can end.

use amends_core::{EntryKind, Knowledge, OpRef, Phase, Saga, Status, status};

use super::{Checker, Violation, violated};
use crate::definitions::ends_by_itself;
use crate::event::Event;
use crate::truth::{Recorded, Truth};

pub(super) const NAME: &str = "liveness";

/// Looks at what has not ended.
pub(super) struct Liveness;

impl Checker for Liveness {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Rested => {
                for recorded in truth.sagas.values().filter(|recorded| recorded.saga.ended.is_none()) {
                    if let Err(why) = excuse(recorded, truth) {
                        let (id, status) = (&recorded.saga.id, status::status(&recorded.saga));
                        violated(found, NAME, format!("{id} rests as {status:?}: {why}"));
                    }
                }
            }
            Event::CannotClose { saga, why } => {
                violated(found, NAME, format!("a person cannot close {saga}: {why}"));
            }
            _ => {}
        }
    }
}

/// Why a saga may rest without having ended; an error if it may not.
fn excuse(recorded: &Recorded, truth: &Truth) -> Result<(), String> {
    let saga = &recorded.saga;
    if saga.stuck.is_some() {
        return if was_stopped_thrice(recorded, truth) { Ok(()) } else { Err(format!("{:?}", saga.stuck)) };
    }
    match status::status(saga) {
        Status::Accepting => {
            let holders = saga.claims.iter().filter_map(|claim| truth.claims.get(claim));
            let mut open = holders.filter_map(|id| truth.sagas.get(id)).filter(|h| h.saga.ended.is_none());
            open.next().map(|_| ()).ok_or_else(|| "its claims are free".to_owned())
        }
        Status::Running | Status::Compensating => Err("it still moves, or should".to_owned()),
        Status::Unknown | Status::Dead => {
            let mut excused = false;
            for op in saga.ops() {
                if needs_somebody(saga, op) {
                    excuse_operation(saga, op, truth)?;
                    excused = true;
                }
            }
            if excused { Ok(()) } else { Err("no operation says why".to_owned()) }
        }
        Status::Completed | Status::Compensated | Status::Resolved => Ok(()),
    }
}

/// Whether three nodes in a row really stopped while they had it, with nothing done between.
fn was_stopped_thrice(recorded: &Recorded, truth: &Truth) -> bool {
    let mut in_a_row = 0;
    for (entry, at) in recorded.entries.iter().zip(&recorded.times) {
        match entry.kind {
            EntryKind::TakenOver { epoch, lapsed, .. } => {
                let before = recorded.claims.iter().take_while(|claimed| **claimed != epoch).last();
                // With nobody before it, a node takes a saga over from itself: it has lost it from memory.
                let stopped = lapsed && before.is_none_or(|owner| truth.had_lapsed(*owner, *at));
                in_a_row = if stopped { in_a_row + 1 } else { 0 };
            }
            EntryKind::Stuck { .. } => return in_a_row >= 3,
            _ => in_a_row = 0,
        }
    }
    false
}

/// Whether an operation is one that keeps its saga from moving.
fn needs_somebody(saga: &Saga, op: OpRef) -> bool {
    match &saga.op(op).phase {
        Phase::Dead { .. } | Phase::Verify { .. } => true,
        Phase::Calling | Phase::Send { .. } => saga.op(op).is_verifying(),
        Phase::Idle | Phase::Ask { .. } | Phase::InProgress { .. } | Phase::Parked { .. } => false,
    }
}

fn excuse_operation(saga: &Saga, op: OpRef, truth: &Truth) -> Result<(), String> {
    let state = saga.op(op);
    let Some(operation) = saga.operation(op) else { return Ok(()) };
    let says = || format!("{}: {:?} {:?}", saga.key(op).as_str(), state.knowledge(), state.phase);
    let excused = match state.knowledge() {
        // Its participant refuses it (the ledger agrees, or another checker says so).
        Knowledge::Rejected | Knowledge::Sealed => true,
        // Used-up attempts and budgets.
        Knowledge::Unsent => {
            let used = state.budget_used_ms.saturating_add(operation.timeout_ms);
            state.attempts >= operation.retry.max_attempts || used > operation.retry.budget_ms
        }
        Knowledge::Possible => !ends_by_itself(operation) || state.key_expired(operation, truth.now),
        Knowledge::Done => false,
    };
    if excused { Ok(()) } else { Err(says()) }
}
