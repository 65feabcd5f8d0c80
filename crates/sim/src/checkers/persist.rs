//! Persist, then act: nothing is sent that no durable entry allows.

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "persist";

/// Looks at what is durable when a request leaves.
pub(super) struct Persist;

impl Checker for Persist {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Sent { saga, op, key, attempt, is_query, .. } = event else { return };
        let Some(recorded) = truth.sagas.get(saga) else {
            return violated(found, NAME, format!("{key} is sent, but {saga} is not durable"));
        };
        let state = recorded.saga.op(*op);
        let allowed = if *is_query { state.sends > 0 } else { state.enabled && state.sends >= *attempt };
        if !allowed {
            let sends = state.sends;
            violated(
                found,
                NAME,
                format!("attempt {attempt} of {key} is sent, but only {sends} are allowed"),
            );
        }
    }
}
