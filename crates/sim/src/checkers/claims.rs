//! Claims are exclusive: no two open sagas hold the same one. With no saga open all are free.

use amends_core::SagaId;
use amends_store::{Advanced, Submitted};

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "claims";

/// Looks at who holds what when somebody takes it.
pub(super) struct Claims;

impl Checker for Claims {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Began { submission, outcome: Submitted::Created(_), .. } => {
                take(&submission.claims, &submission.row.id, truth, found);
            }
            Event::Advanced { advance, outcome: Advanced::Committed, .. } => {
                take(&advance.take_claims, &advance.id, truth, found);
            }
            Event::ClaimStuck { claim, holder } => {
                violated(found, NAME, format!("{claim} is held by {holder}, which has ended"));
            }
            _ => {}
        }
    }
}

fn take(claims: &[String], by: &SagaId, truth: &Truth, found: &mut Vec<Violation>) {
    for claim in claims {
        let holder = truth.claims.get(claim).filter(|holder| *holder != by);
        let open =
            holder.and_then(|holder| truth.sagas.get(holder)).filter(|holder| holder.saga.ended.is_none());
        if let Some(open) = open {
            violated(found, NAME, format!("{by} takes {claim}, which {} holds", open.saga.id));
        }
    }
}
