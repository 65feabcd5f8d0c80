//! What the API shows of a saga is what its durable journal makes of it: as it is now, or as it was.

use amends_core::{Saga, replay};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::{Recorded, Truth};

pub(super) const NAME: &str = "views";

/// Replays journals up to what was shown.
pub(super) struct Views;

impl Checker for Views {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Seen(shown) => match truth.sagas.get(&shown.id) {
                None => violated(found, NAME, format!("{} is shown, but is not durable", shown.id)),
                Some(recorded) if !is_prefix(shown, recorded) => {
                    let (id, seq) = (&shown.id, shown.seq);
                    violated(found, NAME, format!("{id} at version {seq} is not what its journal says"));
                }
                Some(_) => {}
            },
            Event::Read { saga, after, entries } => match truth.sagas.get(saga) {
                None => {
                    violated(found, NAME, format!("the journal of {saga} is shown, but it is not durable"))
                }
                // Retention leaves what is kept.
                Some(recorded) if recorded.pruned => {}
                Some(recorded) => {
                    let from = usize::try_from(*after).unwrap_or(usize::MAX);
                    // Beyond its end there is nothing.
                    let known = recorded.stored.iter().skip(from).take(entries.len());
                    if !known.eq(entries) {
                        violated(
                            found,
                            NAME,
                            format!("the journal of {saga} after {after} is shown otherwise"),
                        );
                    }
                }
            },
            Event::SeenRow { saga, .. } => match truth.sagas.get(saga) {
                Some(recorded) if recorded.pruned => {}
                Some(_) | None => violated(found, NAME, format!("nothing but the row of {saga} is shown")),
            },
            _ => {}
        }
    }
}

fn is_prefix(shown: &Saga, recorded: &Recorded) -> bool {
    if shown.seq == recorded.saga.seq {
        return *shown == recorded.saga;
    }
    let Some(entries) = usize::try_from(shown.seq).ok().and_then(|seq| recorded.entries.get(..seq)) else {
        return false;
    };
    replay(shown.definition.clone(), entries).is_ok_and(|replayed| replayed == *shown)
}
