//! A node that lost a saga loses every commit: entries are written by whoever wrote the last take-over, or by a new one.

use amends_core::EntryKind;
use amends_store::Advanced;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "writer";

/// Looks at the writer of each advance.
pub(super) struct Writer;

impl Checker for Writer {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Advanced { life, advance, outcome: Advanced::Committed } = event else { return };
        let Some(recorded) = truth.sagas.get(&advance.id) else { return };
        let Some(first) = advance.entries.first().and_then(|entry| entry.decode().ok()) else { return };
        let epoch = match first.kind {
            EntryKind::TakenOver { epoch, .. } => epoch,
            _ if recorded.saga.ended.is_some() => return,
            _ => recorded.saga.epoch,
        };
        if truth.life_of(epoch) != Some(*life) {
            let id = &advance.id;
            violated(
                found,
                NAME,
                format!("{life} writes {} of {id}, which is epoch {epoch}'s", first.kind.name()),
            );
        }
    }
}
