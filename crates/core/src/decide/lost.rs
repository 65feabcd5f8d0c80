//! The store lost entries of a saga, and people accepted that (rule 1).
//!
//! What is left of the journal is a beginning of what happened. Whatever it does not settle may have been sent, so that nothing is sent as if
//! for the first time. What no rule can find out is whether the saga had turned round meanwhile: one that goes forward, and could have been undone,
//! is a person's.

use super::Deciding;
use super::take_over::Pivot;
use crate::saga::{Direction, Phase};
use crate::{EntryKind, OpKind, OpRef};

impl Deciding {
    pub(super) fn lost(&mut self, loss: u64) {
        if self.saga.ended.is_some() || self.saga.loss >= loss {
            return;
        }
        let next: Vec<(OpRef, Phase)> = self
            .saga
            .ops()
            .filter(|op| self.has_to_be_settled(*op))
            .map(|op| (op, Phase::Ask { due: self.now.at, n: 0 }))
            .collect();
        // Before it: the loss makes everything possible, a pivot too.
        let is_past_pivot = self.pivot() == Pivot::Passed;
        self.push(EntryKind::Lost { loss, next });
        let may_have_turned = self.saga.direction == Direction::Forward
            && !is_past_pivot
            && self.saga.ops().any(|op| op.kind == OpKind::Compensation);
        if may_have_turned && self.saga.stuck.is_none() {
            let reason = "the store lost data, so that it may have gone on, or have been undone, without a trace here: ask its participants, then \
                          retry a step to go on, or cancel it";
            self.push(EntryKind::Stuck { reason: reason.into() });
        }
    }

    /// Whether an operation is asked about at once: one whose turn has come, and the pivot, on which it hangs whether anything may be undone.
    fn has_to_be_settled(&self, op: OpRef) -> bool {
        let state = self.saga.op(op);
        if self.is_over(op) || state.settled.is_some() || self.saga.steps[op.step].skipped {
            return false;
        }
        match op.kind {
            OpKind::Action => {
                let is_pivot = self.saga.definition.pivot() == Some(op.step);
                self.saga.steps[op.step].started || (is_pivot && self.saga.direction == Direction::Forward)
            }
            OpKind::Compensation => state.enabled,
        }
    }
}
