//! What a person did is in the journal once, with their name and reason; what they were refused is not there at all.

use std::collections::BTreeMap;

use amends_core::{Entry, EntryKind, SagaId};

use super::{Checker, Violation, violated};
use crate::event::{Event, Heard};
use crate::truth::{Recorded, Truth};

pub(super) const NAME: &str = "people";

/// Looks for each action's mark.
#[derive(Default)]
pub(super) struct People {
    marks: BTreeMap<String, SagaId>,
}

/// Whether anything that a person could have seen happened after a version.
fn has_changed(recorded: &Recorded, seen: u64) -> bool {
    let after = recorded.entries.iter().filter(|entry| entry.seq > seen);
    let changes = |entry: &Entry| match &entry.kind {
        EntryKind::TakenOver { next, .. } => !next.is_empty(),
        _ => true,
    };
    after.into_iter().any(changes)
}

impl Checker for People {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Acted { saga, mark, seen, may_be_nothing, heard } => {
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
                    Heard::Stale if count > 0 => {
                        violated(found, NAME, format!("{mark} on {saga} was refused as stale, and is there"));
                    }
                    Heard::Stale if !has_changed(recorded, seen.unwrap_or(0)) => {
                        violated(
                            found,
                            NAME,
                            format!("{mark} on {saga} was refused as stale, but nothing has changed"),
                        );
                    }
                    Heard::Done | Heard::Refused(_) | Heard::Stale | Heard::Unclear => {}
                }
            }
            Event::Over => {
                for (mark, saga) in &self.marks {
                    let Some(recorded) = truth.sagas.get(saga) else { continue };
                    let mut kinds: Vec<&str> = recorded.acts(mark).map(EntryKind::name).collect();
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
