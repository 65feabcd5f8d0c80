//! Completed: every effect happened, exactly once, and none was undone.

use amends_core::{Ended, OpKind};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::{Recorded, Truth};

pub(super) const NAME: &str = "completed";

/// Compares ledgers with completed sagas, once nothing can arrive any more.
pub(super) struct Completed;

impl Checker for Completed {
    fn after(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        if matches!(event, Event::Over) {
            let ended = truth.sagas.values().filter(|recorded| recorded.saga.ended == Some(Ended::Completed));
            ended.for_each(|recorded| compare(recorded, truth, found));
        }
    }
}

fn compare(recorded: &Recorded, truth: &Truth, found: &mut Vec<Violation>) {
    let saga = &recorded.saga;
    for (index, step) in saga.definition.steps.iter().enumerate() {
        // A person who skips a step takes it upon themselves that it does not happen.
        let expected = usize::from(step.action.is_some() && !saga.steps[index].skipped);
        let done = truth.ledger.count(&saga.id, index, OpKind::Action);
        let undone = truth.ledger.count(&saga.id, index, OpKind::Compensation);
        if (done, undone) != (expected, 0) {
            let (id, name) = (&saga.id, &step.name);
            violated(
                found,
                NAME,
                format!("{id} completed, but {name} was done {done} and undone {undone} times"),
            );
        }
    }
}
