//! A business id names one operation: the same submission again is the same saga, another one is refused.

use std::collections::BTreeMap;

use amends_core::{SagaId, json};
use serde_json::Value;

use super::{Checker, Violation, violated};
use crate::event::{Event, Told};
use crate::truth::Truth;

pub(super) const NAME: &str = "identity";

/// Remembers with what each saga was acknowledged.
#[derive(Default)]
pub(super) struct Identity {
    first: BTreeMap<SagaId, (String, Value)>,
    created: BTreeMap<SagaId, u32>,
}

impl Checker for Identity {
    fn before(&mut self, event: &Event, _truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Submitted { saga, name, input, told } = event else { return };
        let same = |(known, first): &(String, Value)| known == name && json::same(first, input);
        match told {
            Told::Created | Told::Known => {
                let first = self.first.entry(saga.clone()).or_insert_with(|| (name.clone(), input.clone()));
                if !same(first) {
                    violated(found, NAME, format!("{saga} was taken for the same with another input"));
                }
                let created = self.created.entry(saga.clone()).or_default();
                *created += u32::from(*told == Told::Created);
                if *created > 1 {
                    violated(found, NAME, format!("{saga} was told to be new twice"));
                }
            }
            Told::OtherInput => {
                if self.first.get(saga).is_some_and(same) {
                    violated(found, NAME, format!("{saga} was taken for another with the same input"));
                }
            }
            Told::Refused(_) | Told::Unclear => {}
        }
    }
}
