//! Journals have no gap, what was acknowledged stays as it is, and each entry follows those before it.

use amends_store::{Advanced, Submitted};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "journal";

/// Compares what the store acknowledges with what it acknowledged before, and with what it holds in the end.
pub(super) struct Journal;

impl Checker for Journal {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Began { submission, outcome: Submitted::Created(_), .. }
                if truth.sagas.contains_key(&submission.row.id) =>
            {
                violated(found, NAME, format!("{} began twice", submission.row.id));
            }
            Event::Advanced { advance, outcome: Advanced::Committed, .. } => {
                match truth.sagas.get(&advance.id) {
                    None => violated(found, NAME, format!("{} was advanced, but never began", advance.id)),
                    Some(recorded) if recorded.saga.seq != advance.after => {
                        let (id, after, last) = (&advance.id, advance.after, recorded.saga.seq);
                        violated(found, NAME, format!("{id} was advanced after {after}, but was at {last}"));
                    }
                    Some(_) => {}
                }
            }
            Event::Stored { saga, entries } => {
                let Some(recorded) = truth.sagas.get(saga) else { return };
                let same = if recorded.pruned {
                    entries.iter().all(|entry| recorded.stored.contains(entry))
                } else {
                    *entries == recorded.stored
                };
                if !same {
                    violated(found, NAME, format!("{saga} is stored otherwise than it was acknowledged"));
                }
            }
            _ => {}
        }
    }

    fn after(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        if let Event::Advanced { advance, outcome: Advanced::Committed, .. } = event
            && let Some(why) = truth.sagas.get(&advance.id).and_then(|recorded| recorded.broken.as_ref())
        {
            violated(found, NAME, format!("the journal of {} cannot be read: {why}", advance.id));
        }
    }
}
