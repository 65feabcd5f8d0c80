//! The point of no return: once the pivot's effect has happened nothing is undone, and it does not happen once anything was.

use amends_core::OpKind;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "pivot";

/// Looks at each effect against the pivot's.
pub(super) struct Pivot;

impl Checker for Pivot {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Happened(effect) = event else { return };
        let Some(recorded) = truth.sagas.get(&effect.saga) else { return };
        let Some(pivot) = recorded.saga.definition.pivot() else { return };
        match effect.kind {
            OpKind::Compensation => {
                if truth.ledger.count(&effect.saga, pivot, OpKind::Action) > 0 {
                    violated(found, NAME, format!("{} happened after the point of no return", effect.key));
                }
            }
            OpKind::Action => {
                let undone = truth.ledger.of(&effect.saga).any(|other| other.kind == OpKind::Compensation);
                if effect.step == pivot && undone {
                    violated(
                        found,
                        NAME,
                        format!("{} happened although the saga is being undone", effect.key),
                    );
                }
            }
        }
    }
}
