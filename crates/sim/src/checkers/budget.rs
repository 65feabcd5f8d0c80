//! No operation uses more attempts, or more of its budget, than its policy allows.

use amends_store::Advanced;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "budget";

/// Holds each operation against its policy.
pub(super) struct Budget {
    /// Against a policy with one attempt.
    pub(super) stricter: bool,
}

impl Checker for Budget {
    fn after(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Advanced { advance, outcome: Advanced::Committed, .. } = event else { return };
        let Some(recorded) = truth.sagas.get(&advance.id) else { return };
        let saga = &recorded.saga;
        for op in saga.ops() {
            let Some(retry) = saga.operation(op).map(|operation| &operation.retry) else { continue };
            let state = saga.op(op);
            let attempts_max = if self.stricter { 1 } else { retry.max_attempts };
            if state.attempts > attempts_max || state.budget_used_ms > retry.budget_ms {
                let (key, attempts, used) = (saga.key(op), state.attempts, state.budget_used_ms);
                violated(found, NAME, format!("{} used {attempts} attempts and {used} ms", key.as_str()));
            }
        }
    }
}
