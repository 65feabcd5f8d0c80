//! What a participant reported, and was told is durable, is not lost: in the end the operation is known to be done.

use std::collections::BTreeSet;

use amends_core::{Knowledge, OpRef, SagaId};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "reports";

/// Remembers what was reported.
#[derive(Default)]
pub(super) struct Reports {
    done: BTreeSet<(SagaId, OpRef)>,
}

impl Checker for Reports {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Reported { saga, op, done: true } => {
                self.done.insert((saga.clone(), *op));
            }
            Event::Rested => {
                for (saga, op) in &self.done {
                    let Some(recorded) = truth.sagas.get(saga) else { continue };
                    // A step that is undone needs nobody's word any more.
                    let undone = recorded.saga.steps[op.step].undone;
                    let open =
                        recorded.saga.ended.is_none() && recorded.saga.op(*op).generation == 1 && !undone;
                    if open && recorded.saga.op(*op).knowledge() == Knowledge::Possible {
                        let key = recorded.saga.key(*op);
                        violated(
                            found,
                            NAME,
                            format!("{} was reported done, and nobody knows", key.as_str()),
                        );
                    }
                }
            }
            _ => {}
        }
    }
}
