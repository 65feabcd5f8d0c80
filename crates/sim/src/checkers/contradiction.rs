//! Participants here keep what they declare, so nothing they ever say disagrees with what is known.

use amends_core::{Ended, EntryKind};
use amends_store::Advanced;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "contradiction";

/// Looks for contradictions in journals.
pub(super) struct Contradiction;

impl Checker for Contradiction {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Advanced { advance, outcome: Advanced::Committed, .. } = event else { return };
        // Who closes a saga does so without knowing what became of all of it.
        if truth.sagas.get(&advance.id).is_some_and(|r| r.saga.ended == Some(Ended::Resolved)) {
            return;
        }
        for entry in advance.entries.iter().filter_map(|entry| entry.decode().ok()) {
            if let EntryKind::Contradiction { op, evidence, known, source } = entry.kind {
                let id = &advance.id;
                violated(found, NAME, format!("{id} {op:?}: {source} says {evidence}, known is {known}"));
            }
        }
    }
}
