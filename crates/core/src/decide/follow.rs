//! What follows from a decision, until nothing more does: turning round, sending what is due, ending.

use super::Deciding;
use super::take_over::Pivot;
use crate::call::for_call;
use crate::definition::StepKind;
use crate::saga::{Direction, Ended, Knowledge};
use crate::{CallId, EntryKind, OpKind, OpRef, UndoReason};

/// The most entries that one input may lead to: far above what a definition of the largest size needs. A fault in the rules then stops one saga,
/// visible, rather than the engine.
const ENTRIES_MAX: usize = 10_000;

impl Deciding {
    /// Adds every entry that follows. `dues`: also do what is due by the clock.
    pub(super) fn follow(&mut self, dues: bool) {
        while self.saga.ended.is_none() && self.saga.stuck.is_none() && self.one_more(dues) {
            if self.entries.len() >= ENTRIES_MAX {
                let reason = format!(
                    "one input led to {ENTRIES_MAX} entries; the engine has a fault, please report it"
                );
                self.push(EntryKind::Stuck { reason });
            }
        }
    }

    fn one_more(&mut self, dues: bool) -> bool {
        self.turn()
            || (dues && self.deadline())
            || self.check_requests()
            || (dues && self.send_due())
            || self.end()
    }

    /// Turns round where a refusal, or a pending cancel or deadline, demands it (rules 3, 6 and 9).
    fn turn(&mut self) -> bool {
        if self.saga.direction == Direction::Undo {
            return false;
        }
        if let Some((reason, by)) = self.saga.undo_pending.clone() {
            match self.pivot() {
                Pivot::Passed => self.push(EntryKind::UndoRefused),
                Pivot::None | Pivot::NotSent => self.push(EntryKind::Undoing { reason, by }),
                Pivot::Possible => return false,
            }
            return true;
        }
        let refused = (0..self.saga.steps.len()).find(|step| {
            let undoable = match self.saga.definition.steps[*step].kind {
                StepKind::Compensatable | StepKind::Pivot => true,
                StepKind::Retriable => false,
            };
            let refused = match self.saga.steps[*step].action.knowledge() {
                Knowledge::Rejected | Knowledge::Sealed => true,
                Knowledge::Unsent | Knowledge::Possible | Knowledge::Done => false,
            };
            undoable && refused && !self.saga.steps[*step].skipped
        });
        let Some(step) = refused else { return false };
        self.push(EntryKind::Undoing { reason: UndoReason::Rejected(OpRef::action(step)), by: None });
        true
    }

    /// An operation whose request cannot be built is dead at once, before its first send.
    fn check_requests(&mut self) -> bool {
        let first_sends: Vec<OpRef> = self
            .saga
            .ops()
            .filter(|op| {
                let state = self.saga.op(*op);
                state.is_calling() && state.sends == 1 && state.first_send_at == Some(self.now.at)
            })
            .collect();
        for op in first_sends {
            if let Err(missing) = for_call(&self.saga, CallId { op, is_query: false, n: 1 }) {
                self.push(EntryKind::Unrenderable { op, path: missing.path });
                return true;
            }
        }
        false
    }

    fn send_due(&mut self) -> bool {
        if self.saga.accepting.is_some() {
            return false;
        }
        let ops: Vec<OpRef> = self.saga.ops().collect();
        ops.into_iter().any(|op| self.due(op))
    }

    fn end(&mut self) -> bool {
        if self.saga.accepting.is_some() {
            return false;
        }
        let how = match self.saga.direction {
            Direction::Forward if self.saga.steps.iter().all(|step| step.done) => Ended::Completed,
            Direction::Undo if self.saga.steps.iter().all(|step| step.undone) => Ended::Compensated,
            Direction::Forward | Direction::Undo => return false,
        };
        self.push(EntryKind::Ended { how, by: None, left: Vec::new() });
        true
    }

    /// What is left undecided, in plain words, a line each; for the entry that closes a saga.
    pub(super) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for op in self.saga.ops() {
            let state = self.saga.op(op);
            let name = &self.saga.definition.steps[op.step].name;
            let knowledge = state.knowledge();
            let line = match (op.kind, knowledge) {
                (OpKind::Action, Knowledge::Done)
                    if !self.saga.steps[op.step].undone && self.saga.direction == Direction::Undo =>
                {
                    "done, not undone"
                }
                // The fence has undone it, whether it was executed or not; or there turned out to be nothing to undo.
                (_, Knowledge::Possible) if self.saga.steps[op.step].undone => continue,
                (_, Knowledge::Possible) => "may have been executed",
                (OpKind::Action, Knowledge::Unsent) if self.saga.direction == Direction::Forward => {
                    "not executed"
                }
                (_, Knowledge::Rejected) if matches!(state.phase, crate::saga::Phase::Dead { .. }) => {
                    "rejected"
                }
                (_, Knowledge::Sealed) if matches!(state.phase, crate::saga::Phase::Dead { .. }) => {
                    "will never be executed"
                }
                (_, Knowledge::Unsent) if matches!(state.phase, crate::saga::Phase::Dead { .. }) => {
                    "not executed"
                }
                (_, Knowledge::Done | Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed) => {
                    continue;
                }
            };
            left.push(format!("{name} {}: {line}", op.kind.as_str()));
        }
        left
    }
}
