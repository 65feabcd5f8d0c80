//! Retention removes the journals of what ended long enough ago, all of them, and nothing that is to be kept.

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "retention";

/// What may still be under way when retention has had its time: a turn that failed and waits for the next.
const SLACK_MS: u64 = 300_000;

/// Looks at what is removed, and at what is left.
pub(super) struct Retention;

impl Checker for Retention {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Pruned { saga, ended_before, left } => {
                let Some(recorded) = truth.sagas.get(saga) else { return };
                let ended = recorded.saga.ended.and(recorded.row.ended_at);
                if ended.is_none_or(|ended| ended >= *ended_before) {
                    violated(found, NAME, format!("{saga} was removed too early: it ended at {ended:?}"));
                }
                if recorded.stored.iter().any(|entry| entry.keep && !left.contains(entry)) {
                    violated(found, NAME, format!("{saga} lost entries that are to be kept"));
                }
            }
            Event::PruningOver { keep_ms } => {
                for recorded in truth.sagas.values().filter(|recorded| !recorded.pruned) {
                    let old = |ended: amends_core::Time| truth.now.since_ms(ended) > keep_ms + SLACK_MS;
                    if recorded.row.ended_at.is_some_and(old) {
                        violated(found, NAME, format!("{} was not removed", recorded.saga.id));
                    }
                }
            }
            _ => {}
        }
    }
}
