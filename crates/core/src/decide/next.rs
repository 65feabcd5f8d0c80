//! What an operation does next: retry, query, resend, verification (rules 2, 3, 4, 7, 10, 11).

use super::Deciding;
use crate::definition::{Idempotency, OnExhausted, Operation, StepKind};
use crate::saga::{Direction, OpState, Phase};
use crate::{OpKind, OpRef, UndoReason};

/// The waits of a parked operation (rule 10); the last repeats.
const PARKED_MS: [u64; 4] = [60_000, 300_000, 1_800_000, 7_200_000];

/// The longest pause between two queries of what is in progress (semantics, section 3).
const IN_PROGRESS_PAUSE_MAX_MS: u64 = 60_000;

/// Where an operation goes, and whether its saga turns round with it.
pub(super) struct Next {
    pub(super) phase: Phase,
    pub(super) undo: Option<UndoReason>,
}

impl From<Phase> for Next {
    fn from(phase: Phase) -> Self {
        Self { phase, undo: None }
    }
}

impl Deciding {
    pub(super) fn operation(&self, op: OpRef) -> &Operation {
        self.saga.operation(op).expect("inputs name operations of the definition; the door checks it")
    }

    fn state(&self, op: OpRef) -> &OpState {
        self.saga.op(op)
    }

    /// What the operation's repeats do now: past its life a key promises nothing (rule 11).
    pub(super) fn idempotency(&self, op: OpRef) -> Idempotency {
        let operation = self.operation(op);
        if self.state(op).key_expired(operation, self.now.at) {
            Idempotency::None
        } else {
            operation.idempotency
        }
    }

    /// Whether it may be sent again although it may have been executed (rules 2, 4 and 11).
    pub(super) fn may_resend(&self, op: OpRef) -> bool {
        let by_query_alone =
            self.saga.is_settling(op) && self.operation(op).seals_after_ms.is_some() && self.saga.can_ask(op);
        // What was lost may have been sent out of sight; before its turn it is not sent to find out.
        let had_its_turn = match op.kind {
            OpKind::Action => self.saga.steps[op.step].started,
            OpKind::Compensation => self.state(op).enabled,
        };
        had_its_turn && self.idempotency(op) != Idempotency::None && !by_query_alone
    }

    /// Whether an operation that is unsent, or may be resent, is still wanted at all.
    fn is_wanted(&self, op: OpRef) -> bool {
        match op.kind {
            OpKind::Action => self.saga.direction == Direction::Forward && !self.saga.is_settling(op),
            OpKind::Compensation => true,
        }
    }

    /// The back-off before the next attempt, if attempts and budget allow one. `wait_ms`: what the participant asked for.
    fn retry(&self, op: OpRef, wait_ms: Option<u64>, took_ms: u64) -> Option<Phase> {
        let operation = self.operation(op);
        let state = self.state(op);
        let retry = &operation.retry;
        if state.attempts >= retry.max_attempts {
            return None;
        }
        let pause = self.now.jitter.shorten_ms(retry.backoff_ms(state.attempts.max(1)), retry.jitter);
        // The next call's whole time-out has to fit: no operation exceeds its budget.
        let used = state.budget_used_ms.saturating_add(took_ms).saturating_add(operation.timeout_ms);
        let left = retry.budget_ms.checked_sub(used).filter(|left| *left >= pause)?;
        // A participant that asks for more than the budget holds is asked once more at its end, rather than given up at once.
        let waited_ms = wait_ms.map_or(pause, |asked| asked.clamp(pause, left));
        Some(Phase::Send { due: self.now.at.plus_ms(waited_ms), waited_ms, verifying: false })
    }

    /// After an attempt that was not executed, or whose effect was proved void.
    pub(super) fn after_not_executed(
        &self,
        op: OpRef,
        open: u32,
        wait_ms: Option<u64>,
        took_ms: u64,
    ) -> Next {
        if open == 0 && !self.is_wanted(op) {
            return Phase::Idle.into();
        }
        if open > 0 && !self.may_resend(op) {
            return self.unknown(op, took_ms).into();
        }
        if let Some(phase) = self.retry(op, wait_ms, took_ms) {
            return phase.into();
        }
        if open > 0 {
            return self.verification(op).into();
        }
        self.exhausted(op)
    }

    /// Rules 5 and 7: attempts or budget are over, and nothing was executed.
    fn exhausted(&self, op: OpRef) -> Next {
        let step = &self.saga.definition.steps[op.step];
        let dead = Phase::Dead { reason: "its attempts are over; none was executed".into() };
        match (op.kind, step.kind, self.operation(op).on_exhausted) {
            (OpKind::Compensation, StepKind::Compensatable | StepKind::Pivot | StepKind::Retriable, _)
            | (OpKind::Action, StepKind::Retriable, _)
            | (OpKind::Action, StepKind::Compensatable | StepKind::Pivot, OnExhausted::Dead) => dead.into(),
            (OpKind::Action, StepKind::Compensatable | StepKind::Pivot, OnExhausted::Compensate) => {
                Next { phase: Phase::Idle, undo: Some(UndoReason::Exhausted(op)) }
            }
        }
    }

    /// Rule 3: the outcome of an attempt has just become unknown. Query first.
    pub(super) fn unknown(&self, op: OpRef, took_ms: u64) -> Phase {
        if self.saga.can_ask(op) && self.operation(op).on_unknown.queries > 0 {
            Phase::Ask { due: self.now.at, n: 0 }
        } else {
            self.after_queries(op, took_ms)
        }
    }

    /// Rule 3: the queries did not settle it. Resend under the same key, at least once, or verify.
    pub(super) fn after_queries(&self, op: OpRef, took_ms: u64) -> Phase {
        if !self.may_resend(op) {
            return self.verification(op);
        }
        if let Some(phase) = self.retry(op, None, took_ms) {
            return phase;
        }
        let state = self.state(op);
        if state.resends == 0 {
            let operation = self.operation(op);
            let pause = self
                .now
                .jitter
                .shorten_ms(operation.retry.backoff_ms(state.attempts.max(1)), operation.retry.jitter);
            return Phase::Send { due: self.now.at.plus_ms(pause), waited_ms: 0, verifying: true };
        }
        self.verification(op)
    }

    /// The next verification, or death once `verify_for` is over.
    pub(super) fn verification(&self, op: OpRef) -> Phase {
        let operation = self.operation(op);
        let state = self.state(op);
        let now = self.now.at;
        let end = state.verify_since.unwrap_or(now).plus_ms(operation.on_unknown.verify_for_ms);
        if end <= now {
            let why = state.reason.as_deref().unwrap_or("no answer settled it");
            return Phase::Dead {
                reason: format!("its outcome is still unknown after the whole time of verification: {why}"),
            };
        }
        if !self.saga.can_ask(op) && !self.may_resend(op) {
            // Nothing that machines can do settles it; evidence or a person may until then.
            return Phase::Verify { due: end };
        }
        let pauses = &operation.on_unknown.verify_ms;
        let done = if state.verify_since.is_some() { state.verified as usize + 1 } else { 0 };
        let pause = pauses.get(done).or(pauses.last()).copied().unwrap_or(60_000).max(1);
        let regular = now.plus_ms(pause);
        // When the participant's `seals_after` is over, "never seen" becomes proof: ask right then.
        let proof = operation.seals_after_ms.map(|ms| state.quiet_since.plus_ms(ms));
        let not_yet = proof.filter(|at| state.asked_at(now).is_none_or(|asked_at| asked_at < *at));
        let due = not_yet.map_or(regular, |at| at.max(now).min(regular)).min(end);
        Phase::Verify { due }
    }

    /// Rule 10: not sent, for a reason that is not the operation's.
    pub(super) fn parked(&self, op: OpRef, reason: crate::ParkReason, wait_ms: Option<u64>) -> Phase {
        let state = self.state(op);
        let (since, n) = state.parked.map_or((self.now.at, 0), |(since, n)| (since, n + 1));
        let end = since.plus_ms(self.operation(op).on_unknown.verify_for_ms);
        if end <= self.now.at {
            return Phase::Dead {
                reason: format!("it could not be sent for too long: {}", in_words(&reason)),
            };
        }
        let pause = wait_ms.unwrap_or_else(|| PARKED_MS[(n as usize).min(PARKED_MS.len() - 1)]);
        Phase::Parked { due: self.now.at.plus_ms(pause.max(1)).min(end), reason }
    }

    /// Section 3: accepted, not finished.
    pub(super) fn in_progress(&self, op: OpRef) -> Phase {
        let operation = self.operation(op);
        let now = self.now.at;
        match &self.state(op).phase {
            Phase::InProgress { interval_ms, until, .. } => {
                if *until <= now {
                    return self.after_queries(op, 0);
                }
                let pause = interval_ms
                    .saturating_mul(2)
                    .min(IN_PROGRESS_PAUSE_MAX_MS.max(operation.on_unknown.interval_ms))
                    .max(1);
                Phase::InProgress { due: now.plus_ms(pause).min(*until), interval_ms: pause, until: *until }
            }
            Phase::Idle
            | Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => {
                let until = now.plus_ms(operation.callback_timeout_ms);
                let pause = operation.on_unknown.interval_ms.max(1);
                Phase::InProgress { due: now.plus_ms(pause).min(until), interval_ms: pause, until }
            }
        }
    }
}

fn in_words(reason: &crate::ParkReason) -> &str {
    match reason {
        crate::ParkReason::Configuration(reason) => reason,
        crate::ParkReason::BreakerOpen => "the participant's breaker is open",
        crate::ParkReason::LimitFull => "the participant's concurrency limit is full",
    }
}
