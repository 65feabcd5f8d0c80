//! A node takes a saga over (rule 1), and the claims of one that waits for them (rule 13).

use super::Deciding;
use crate::saga::Phase;
use crate::{Effect, EntryKind, OpRef, UndoReason, wanted};

/// After this many take-overs in a row with nothing between, a saga is a person's.
const TAKE_OVERS_MAX: u32 = 3;

/// The first pause between two attempts to take claims, in milliseconds; it doubles.
const CLAIM_PAUSE_MS: u64 = 1_000;

/// The longest such pause.
const CLAIM_PAUSE_MAX_MS: u64 = 60_000;

impl Deciding {
    pub(super) fn take_over(&mut self, epoch: u64, lapsed: bool) {
        if self.saga.ended.is_some() {
            return;
        }
        let busy = wanted(&self.saga, self.now.at).iter().any(|effect| match effect {
            Effect::Perform { .. } | Effect::Ask { .. } | Effect::Claim => true,
            Effect::Wake(at) => *at <= self.now.at,
        });
        let in_flight: Vec<OpRef> = self.saga.ops().filter(|op| self.saga.op(*op).is_calling()).collect();
        let next = in_flight
            .into_iter()
            .map(|op| {
                let phase = if self.is_over(op) {
                    Phase::Idle
                } else if self.saga.op(op).verifying {
                    self.verification(op)
                } else {
                    self.unknown(op, 0)
                };
                (op, phase)
            })
            .collect();
        self.push(EntryKind::TakenOver { epoch, lapsed, busy, next });
        if self.saga.take_overs_in_a_row >= TAKE_OVERS_MAX && self.saga.stuck.is_none() {
            let reason = format!(
                "{TAKE_OVERS_MAX} nodes in a row stopped while they had it, with nothing done between"
            );
            self.push(EntryKind::Stuck { reason });
        }
    }

    pub(super) fn claimed(&mut self, held_by: Option<&str>) {
        if self.saga.ended.is_some() || self.saga.stuck.is_some() {
            return;
        }
        let Some(accepting) = &self.saga.accepting else { return };
        match held_by {
            None => self.push(EntryKind::Accepted),
            Some(holder) => {
                let pause =
                    CLAIM_PAUSE_MS.saturating_mul(1 << accepting.refused.min(16)).min(CLAIM_PAUSE_MAX_MS);
                let due = self.now.at.plus_ms(pause);
                self.push(EntryKind::AcceptRefused { held_by: holder.into(), due });
            }
        }
    }

    pub(super) fn unfit(&mut self, reason: &str) {
        if self.saga.accepting.is_some() && self.saga.stuck.is_none() && self.saga.ended.is_none() {
            self.push(EntryKind::Stuck { reason: reason.into() });
        }
    }

    /// A deadline has passed (rule 9); true if that made an entry.
    pub(super) fn deadline(&mut self) -> bool {
        if !self.saga.deadline_counts() || self.saga.deadline_at.is_none_or(|deadline| deadline > self.now.at)
        {
            return false;
        }
        let kind = match self.pivot() {
            Pivot::None | Pivot::NotSent => EntryKind::Undoing { reason: UndoReason::Deadline, by: None },
            Pivot::Possible => EntryKind::UndoPending { reason: UndoReason::Deadline, by: None },
            Pivot::Passed => EntryKind::Overdue,
        };
        self.push(kind);
        true
    }

    /// Where the saga stands towards its point of no return.
    pub(super) fn pivot(&self) -> Pivot {
        use crate::saga::Knowledge;
        let Some(step) = self.saga.definition.pivot() else { return Pivot::None };
        if self.saga.steps[step].done {
            return Pivot::Passed;
        }
        match self.saga.steps[step].action.knowledge() {
            Knowledge::Done => Pivot::Passed,
            Knowledge::Possible => Pivot::Possible,
            Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed => Pivot::NotSent,
        }
    }
}

/// Where a saga stands towards its point of no return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pivot {
    /// It has none.
    None,
    /// Nothing of it can have been executed.
    NotSent,
    /// It may have been executed.
    Possible,
    /// It is done.
    Passed,
}
