//! Compensated: no effect is left, also none of what arrives later.

use amends_core::{Ended, OpKind};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::{Recorded, Truth};

pub(super) const NAME: &str = "compensated";

/// Compares ledgers with compensated sagas, once nothing can arrive any more.
pub(super) struct Compensated;

impl Checker for Compensated {
    fn after(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        if matches!(event, Event::Over) {
            let ended =
                truth.sagas.values().filter(|recorded| recorded.saga.ended == Some(Ended::Compensated));
            ended.for_each(|recorded| compare(recorded, truth, found));
        }
    }
}

fn compare(recorded: &Recorded, truth: &Truth, found: &mut Vec<Violation>) {
    let saga = &recorded.saga;
    for (index, step) in saga.definition.steps.iter().enumerate() {
        let done = truth.ledger.count(&saga.id, index, OpKind::Action);
        let undone = truth.ledger.count(&saga.id, index, OpKind::Compensation);
        // Where there is nothing to undo, nothing is left.
        if done != undone && !step.effect_none {
            let (id, name) = (&saga.id, &step.name);
            violated(
                found,
                NAME,
                format!("{id} is compensated, but {name} was done {done} and undone {undone} times"),
            );
        }
    }
}
