//! A query was answered.

use super::Deciding;
use super::answered::{Fence, fence_contradiction};
use super::evidence::QUERY;
use super::next::Next;
use crate::answer::QueryOutcome;
use crate::saga::Phase;
use crate::{EntryKind, Evidence, OpRef};

impl Deciding {
    pub(super) fn asked(&mut self, op: OpRef, n: u32, outcome: &QueryOutcome) {
        let state = self.saga.op(op);
        let waits = state.sends > 0 && state.settled.is_none() && n == state.asked;
        if self.saga.ended.is_some() || !waits || self.is_over(op) {
            return self.late_query(op, outcome);
        }
        let entry = |outcome: &QueryOutcome, void: bool, next: Phase| EntryKind::Asked {
            op,
            outcome: outcome.clone(),
            void,
            next,
        };
        match outcome {
            QueryOutcome::Done { fact, .. } => match self.fence(op, fact) {
                // A query of a compensation that says nothing of the action still says that it is undone.
                Fence::Plain | Fence::Silent
                    if fact.get("undone") != Some(&serde_json::Value::Bool(false)) =>
                {
                    self.push(entry(outcome, false, Phase::Idle));
                }
                Fence::Plain => self.push(entry(outcome, false, Phase::Idle)),
                Fence::Silent => {
                    let unclear = QueryOutcome::NoAnswer {
                        reason: "the fence's answer came after its key's life".into(),
                    };
                    let next = self.after_no_answer(op);
                    self.push(entry(&unclear, false, next));
                }
                Fence::Sealed => {
                    self.push(entry(outcome, false, Phase::Idle));
                    self.seal_action(op);
                }
                Fence::Contradiction => {
                    let unclear = QueryOutcome::NoAnswer { reason: fence_contradiction() };
                    self.push(entry(&unclear, false, Phase::Dead { reason: fence_contradiction() }));
                    self.contradict(OpRef::action(op.step), "never ran, says its fence", "fence");
                }
            },
            QueryOutcome::Rejected { .. } | QueryOutcome::Sealed => {
                self.push(entry(outcome, false, Phase::Idle))
            }
            QueryOutcome::InProgress { .. } => {
                let next = self.after_in_progress(op);
                self.push(entry(outcome, false, next));
            }
            QueryOutcome::NeverSeen { express } => {
                let void = *express && self.proves_never(op);
                let next = self.after_never_seen(op, void);
                self.push_next(next, |phase| entry(outcome, void, phase));
            }
            QueryOutcome::NoAnswer { .. } => {
                let next = self.after_no_answer(op);
                self.push(entry(outcome, false, next));
            }
        }
    }

    /// Rule 6: an express "never seen" proves that nothing happened, if it was asked when the participant's `seals_after` was over
    /// since the last send, on this node's clock, within the key's life. When the answer came does not matter: what was true when
    /// it was given may have changed on the way.
    fn proves_never(&self, op: OpRef) -> bool {
        let operation = self.operation(op);
        let state = self.saga.op(op);
        !state.is_calling()
            && !state.key_expired(operation, self.now.at)
            && match (operation.seals_after_ms, state.asked_at(self.now.at)) {
                (Some(ms), Some(asked_at)) => asked_at >= state.quiet_since.plus_ms(ms),
                (None, _) | (_, None) => false,
            }
    }

    fn after_never_seen(&self, op: OpRef, void: bool) -> Next {
        let state = self.saga.op(op);
        if void {
            return self.after_not_executed(op, 0, Some(0), 0);
        }
        match &state.phase {
            Phase::Ask { .. } | Phase::InProgress { .. } => self.after_queries(op, 0).into(),
            // Section 3: a resend is allowed. It costs neither attempts nor budget here.
            Phase::Verify { .. } if self.may_resend(op) && !self.verification_is_over(op) => {
                Phase::Send { due: self.now.at, waited_ms: 0, verifying: true }.into()
            }
            Phase::Verify { .. } => self.verification(op).into(),
            Phase::Idle | Phase::Calling | Phase::Send { .. } | Phase::Parked { .. } | Phase::Dead { .. } => {
                state.phase.clone().into()
            }
        }
    }

    fn after_in_progress(&self, op: OpRef) -> Phase {
        let state = self.saga.op(op);
        match &state.phase {
            Phase::Ask { .. } | Phase::InProgress { .. } => self.in_progress(op),
            Phase::Verify { .. } => self.verification(op),
            Phase::Idle | Phase::Calling | Phase::Send { .. } | Phase::Parked { .. } | Phase::Dead { .. } => {
                state.phase.clone()
            }
        }
    }

    fn after_no_answer(&self, op: OpRef) -> Phase {
        let state = self.saga.op(op);
        let on_unknown = &self.operation(op).on_unknown;
        match &state.phase {
            Phase::Ask { n, .. } if n + 1 < on_unknown.queries => {
                Phase::Ask { due: self.now.at.plus_ms(on_unknown.interval_ms), n: n + 1 }
            }
            Phase::Ask { .. } => self.after_queries(op, 0),
            Phase::InProgress { .. } => self.in_progress(op),
            Phase::Verify { .. } => self.verification(op),
            Phase::Idle | Phase::Calling | Phase::Send { .. } | Phase::Parked { .. } | Phase::Dead { .. } => {
                state.phase.clone()
            }
        }
    }

    pub(super) fn verification_is_over(&self, op: OpRef) -> bool {
        let end = self.operation(op).on_unknown.verify_for_ms;
        self.saga.op(op).verify_since.is_some_and(|since| self.now.at.since_ms(since) >= end)
    }

    /// A query's answer that nobody waits for any more: only its disagreement matters.
    fn late_query(&mut self, op: OpRef, outcome: &QueryOutcome) {
        let evidence = match outcome {
            QueryOutcome::Done { fact, .. } => Evidence::Done { fact: fact.clone() },
            QueryOutcome::Rejected { reason } => {
                Evidence::Rejected { reason: reason.clone(), explicit: true }
            }
            QueryOutcome::Sealed => Evidence::Sealed,
            QueryOutcome::InProgress { .. }
            | QueryOutcome::NeverSeen { .. }
            | QueryOutcome::NoAnswer { .. } => return,
        };
        let state = self.saga.op(op);
        if state.settled.is_some() || state.sends == 0 || self.is_over(op) {
            let generation = self.saga.op(op).generation;
            self.evidence(op, generation, &evidence, QUERY);
        }
    }
}
