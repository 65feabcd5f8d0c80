//! What has ended stays ended, as it ended; only contradictions are recorded then.

use std::collections::BTreeMap;

use amends_core::{Ended, Entry, EntryKind, SagaId};
use amends_store::Advanced;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "terminal";

/// Looks at what is written after an end, and at what is shown of it.
#[derive(Default)]
pub(super) struct Terminal {
    shown: BTreeMap<SagaId, Ended>,
}

impl Checker for Terminal {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Advanced { advance, outcome: Advanced::Committed, .. } => {
                let Some(recorded) = truth.sagas.get(&advance.id) else { return };
                if recorded.saga.ended.is_some() {
                    let written = advance.entries.iter().filter_map(|entry| entry.decode().ok());
                    only_contradictions(written, &advance.id, found);
                }
            }
            Event::Stored { saga, entries } => {
                let written = entries.iter().filter_map(|entry| entry.decode().ok());
                let after =
                    written.skip_while(|entry| !matches!(entry.kind, EntryKind::Ended { .. })).skip(1);
                only_contradictions(after, saga, found);
            }
            Event::Seen(saga) => {
                let Some(how) = saga.ended else { return };
                let first = *self.shown.entry(saga.id.clone()).or_insert(how);
                if first != how {
                    violated(found, NAME, format!("{} ended {first:?}, then {how:?}", saga.id));
                }
            }
            _ => {}
        }
    }
}

fn only_contradictions(written: impl Iterator<Item = Entry>, id: &SagaId, found: &mut Vec<Violation>) {
    for entry in written {
        if !matches!(entry.kind, EntryKind::Contradiction { .. }) {
            violated(found, NAME, format!("{} of {id} comes after its end", entry.kind.name()));
        }
    }
}
