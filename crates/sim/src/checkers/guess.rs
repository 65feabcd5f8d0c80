//! Nothing is undone on a guess: a compensation is sent only for what is known to be done, or where the fence answers for it; and
//! what is undone had happened.

use amends_core::{Knowledge, OpKind, OpRef};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "guess";

/// Looks at what is known when a compensation leaves, and at what had happened when it is carried out.
pub(super) struct Guess;

impl Checker for Guess {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Sent { saga, op, key, is_query: false, .. } if op.kind == OpKind::Compensation => {
                let Some(recorded) = truth.sagas.get(saga) else { return };
                let fenced = recorded.saga.operation(*op).is_some_and(|operation| operation.fenced);
                let action = recorded.saga.op(OpRef::action(op.step));
                let known = match action.knowledge() {
                    Knowledge::Done => true,
                    // While the fence is being asked, a query may have answered.
                    Knowledge::Possible | Knowledge::Sealed | Knowledge::Rejected => {
                        fenced && !action.is_calling()
                    }
                    Knowledge::Unsent => false,
                };
                if !known {
                    violated(
                        found,
                        NAME,
                        format!("{key} is sent while its action is {:?}", action.knowledge()),
                    );
                }
            }
            Event::Happened(effect)
                if effect.kind == OpKind::Compensation
                    && truth.ledger.count(&effect.saga, effect.step, OpKind::Action) == 0 =>
            {
                violated(found, NAME, format!("{} undid what had not happened", effect.key));
            }
            _ => {}
        }
    }
}
