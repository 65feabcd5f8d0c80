//! A call that performs an operation was answered, or held back.

use serde_json::Value;

use super::Deciding;
use super::next::Next;
use crate::answer::Outcome;
use crate::definition::Idempotency;
use crate::saga::{Knowledge, ParkReason, Phase, Settled};
use crate::{EntryKind, Evidence, OpKind, OpRef};

/// What a fenced compensation's answer says of its action (rules 4 and 6).
pub(super) enum Fence {
    /// Not fenced, or nothing special: the answer means what it says.
    Plain,
    /// The action never ran and never will.
    Sealed,
    /// The action is known to be done, and the fence never saw it.
    Contradiction,
    /// The answer says nothing of a possible action.
    Silent,
}

impl Deciding {
    pub(super) fn answered(&mut self, op: OpRef, attempt: u32, outcome: &Outcome, took_ms: u64) {
        let state = self.saga.op(op);
        if self.saga.ended.is_some() || !state.is_calling() || attempt != state.sends {
            return self.late_answer(op, outcome);
        }
        let took_ms = took_ms.min(self.operation(op).timeout_ms);
        let charged_ms = if state.verifying { 0 } else { took_ms };
        let answered = |outcome: Outcome, settles: bool, phase: Phase| EntryKind::Answered {
            op,
            attempt,
            outcome,
            settles,
            took_ms,
            next: phase,
        };
        if self.is_over(op) {
            // Nothing waits for it: a step whose effect is none, or that a person has decided.
            self.push(answered(outcome.clone(), true, Phase::Idle));
            return;
        }
        match outcome {
            Outcome::Done { fact, .. } => match self.fence(op, fact) {
                Fence::Plain => self.push(answered(outcome.clone(), true, Phase::Idle)),
                Fence::Sealed => {
                    self.push(answered(outcome.clone(), true, Phase::Idle));
                    self.seal_action(op);
                }
                Fence::Contradiction => {
                    let reason = fence_contradiction();
                    self.push(answered(outcome.clone(), false, Phase::Dead { reason }));
                    self.contradict(OpRef::action(op.step), "never ran, says its fence", "fence");
                }
                Fence::Silent => {
                    let reason = "a fenced compensation answered without `undone`".to_owned();
                    let next = self.after_unknown(op, charged_ms);
                    self.push(answered(Outcome::Unknown { reason }, false, next));
                }
            },
            Outcome::Rejected { explicit, .. } => {
                let settles = self.rejection_settles(op, *explicit);
                let next = if settles { Phase::Idle } else { self.after_unknown(op, charged_ms) };
                self.push(answered(outcome.clone(), settles, next));
            }
            Outcome::NotExecuted { retry_after_ms, .. } => {
                let open = state.open.saturating_sub(1);
                let next = if state.verifying && open > 0 {
                    self.verification(op).into()
                } else {
                    self.after_not_executed(op, open, *retry_after_ms, charged_ms)
                };
                self.push_next(next, |phase| answered(outcome.clone(), false, phase));
            }
            Outcome::Misconfigured { reason } => {
                let next = self.after_not_sent(op, ParkReason::Configuration(reason.clone()), None);
                self.push(answered(outcome.clone(), false, next));
            }
            Outcome::InProgress { .. } => {
                let next = self.in_progress(op);
                self.push(answered(outcome.clone(), false, next));
            }
            Outcome::Unknown { .. } => {
                let next = self.after_unknown(op, charged_ms);
                self.push(answered(outcome.clone(), false, next));
            }
        }
    }

    pub(super) fn held(&mut self, op: OpRef, attempt: u32, reason: &ParkReason, retry_in_ms: u64) {
        let state = self.saga.op(op);
        if self.saga.ended.is_some() || !state.is_calling() || attempt != state.sends {
            return;
        }
        let next = self.after_not_sent(op, reason.clone(), Some(retry_in_ms));
        self.push(EntryKind::Held { op, attempt, next });
    }

    /// The attempt in flight was not sent.
    fn after_not_sent(&self, op: OpRef, reason: ParkReason, wait_ms: Option<u64>) -> Phase {
        let state = self.saga.op(op);
        let open = state.open.saturating_sub(1);
        if self.is_over(op) || (open == 0 && self.saga.is_settling(op)) {
            return Phase::Idle;
        }
        if state.verifying && open > 0 {
            return self.verification(op);
        }
        self.parked(op, reason, wait_ms)
    }

    fn after_unknown(&self, op: OpRef, charged_ms: u64) -> Phase {
        if self.saga.op(op).verifying { self.verification(op) } else { self.unknown(op, charged_ms) }
    }

    /// Section 1: whether a rejection speaks for the operation, not for one attempt alone.
    pub(super) fn rejection_settles(&self, op: OpRef, explicit: bool) -> bool {
        self.saga.op(op).open <= 1 || (explicit && self.idempotency(op) == Idempotency::Replay)
    }

    pub(super) fn fence(&self, op: OpRef, fact: &Value) -> Fence {
        if op.kind == OpKind::Action || !self.operation(op).fenced {
            return Fence::Plain;
        }
        let action = self.saga.op(OpRef::action(op.step));
        let undone = fact.get("undone").and_then(Value::as_bool);
        match (action.knowledge(), undone) {
            (Knowledge::Possible, Some(true)) | (Knowledge::Done, Some(true) | None) => Fence::Plain,
            (Knowledge::Possible, Some(false)) => {
                let within_life = self
                    .saga
                    .operation(OpRef::action(op.step))
                    .is_some_and(|operation| !action.key_expired(operation, self.now.at));
                if within_life { Fence::Sealed } else { Fence::Silent }
            }
            (Knowledge::Possible, None) => Fence::Silent,
            (Knowledge::Done, Some(false)) => Fence::Contradiction,
            (Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed, _) => Fence::Plain,
        }
    }

    /// The fence answered that the action never ran: from here it never will.
    pub(super) fn seal_action(&mut self, compensation: OpRef) {
        let op = OpRef::action(compensation.step);
        if self.saga.op(op).settled.is_none() {
            self.push(EntryKind::Settled { op, settled: Settled::Sealed, source: "fence".into(), by: None });
        }
    }

    /// Pushes the entry of a next phase, and turns the saga round if that follows.
    pub(super) fn push_next(&mut self, next: Next, entry: impl FnOnce(Phase) -> EntryKind) {
        self.push(entry(next.phase));
        if let Some(reason) = next.undo
            && self.saga.direction == crate::Direction::Forward
            && self.saga.ended.is_none()
        {
            self.push(EntryKind::Undoing { reason, by: None });
        }
    }

    /// An answer that nobody waits for any more is evidence like any other (rule 12).
    fn late_answer(&mut self, op: OpRef, outcome: &Outcome) {
        let evidence = match outcome {
            Outcome::Done { fact, .. } => Evidence::Done { fact: fact.clone() },
            Outcome::Rejected { reason, explicit } => {
                Evidence::Rejected { reason: reason.clone(), explicit: *explicit }
            }
            Outcome::NotExecuted { .. }
            | Outcome::Misconfigured { .. }
            | Outcome::InProgress { .. }
            | Outcome::Unknown { .. } => {
                return;
            }
        };
        let generation = self.saga.op(op).generation;
        self.evidence(op, generation, &evidence, "late answer");
    }
}

pub(super) fn fence_contradiction() -> String {
    "its fence answers that the action never ran, but the action is known to be done".into()
}
