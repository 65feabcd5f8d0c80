//! What a person did is in the journal once, with their name and reason; what they were refused is not there at all.

use std::collections::BTreeMap;

use amends_core::SagaId;

use super::{Checker, Violation, violated};
use crate::event::{Event, Heard};
use crate::truth::Truth;

pub(super) const NAME: &str = "people";

/// Looks for each action's mark.
#[derive(Default)]
pub(super) struct People {
    marks: BTreeMap<String, SagaId>,
}

impl Checker for People {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Acted { saga, mark, may_be_nothing, heard } => {
                let Some(recorded) = truth.sagas.get(saga) else { return };
                self.marks.insert(mark.clone(), saga.clone());
                let count = recorded.acts(mark).count();
                match heard {
                    Heard::Done if count == 0 && !may_be_nothing => {
                        violated(found, NAME, format!("{mark} on {saga} was acknowledged, and is not there"));
                    }
                    Heard::Refused(why) if count > 0 => {
                        violated(found, NAME, format!("{mark} on {saga} was refused ({why}), and is there"));
                    }
                    Heard::Done | Heard::Refused(_) | Heard::Unclear => {}
                }
            }
            Event::Over => {
                for (mark, saga) in &self.marks {
                    let Some(recorded) = truth.sagas.get(saga) else { continue };
                    let mut kinds: Vec<&str> =
                        recorded.acts(mark).map(amends_core::EntryKind::name).collect();
                    let all = kinds.len();
                    kinds.sort_unstable();
                    kinds.dedup();
                    if kinds.len() < all {
                        violated(found, NAME, format!("{mark} on {saga} is there twice"));
                    }
                }
            }
            _ => {}
        }
    }
}
