//! Undone in reverse order: a step's effect is undone only when those of all steps that build on it are, and nothing that builds
//! on it happens afterwards.

use amends_core::{Definition, OpKind};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::ledger::Effect;
use crate::truth::Truth;

pub(super) const NAME: &str = "undo order";

/// Looks at each effect against those before it.
pub(super) struct UndoOrder;

impl Checker for UndoOrder {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Happened(effect) = event else { return };
        let Some(recorded) = truth.sagas.get(&effect.saga) else { return };
        let definition = &recorded.saga.definition;
        match effect.kind {
            OpKind::Compensation => {
                for step in all_after(definition, effect.step) {
                    let open = !definition.steps[step].effect_none && left(truth, effect, step);
                    if open {
                        let name = &definition.steps[step].name;
                        violated(found, NAME, format!("{} although {name} builds on it", effect.key));
                    }
                }
            }
            OpKind::Action if definition.steps[effect.step].effect_none => {}
            OpKind::Action => {
                for step in
                    (0..definition.steps.len()).filter(|s| all_after(definition, *s).contains(&effect.step))
                {
                    let undone = truth.ledger.count(&effect.saga, step, OpKind::Compensation) > 0;
                    if undone && !left(truth, effect, step) {
                        let name = &definition.steps[step].name;
                        violated(found, NAME, format!("{} after {name} was undone", effect.key));
                    }
                }
            }
        }
    }
}

/// Whether an effect of a step is left.
fn left(truth: &Truth, effect: &Effect, step: usize) -> bool {
    let count = |kind| truth.ledger.count(&effect.saga, step, kind);
    count(OpKind::Action) > count(OpKind::Compensation)
}

/// Every step that comes after one, directly or not.
fn all_after(definition: &Definition, step: usize) -> Vec<usize> {
    let mut all = Vec::new();
    let mut next = definition.steps[step].dependants.clone();
    while let Some(step) = next.pop() {
        if !all.contains(&step) {
            all.push(step);
            next.extend(&definition.steps[step].dependants);
        }
    }
    all
}
