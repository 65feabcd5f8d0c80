//! One owner at a time, as participants see it: a request leaves only a node that owns the saga, under a lease that holds.

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "owner";

/// Looks at the sender of each request.
pub(super) struct Owner;

impl Checker for Owner {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let Event::Sent { life, epoch, saga, key, .. } = event else { return };
        let Some(lease) = truth.leases.get(epoch) else {
            return violated(
                found,
                NAME,
                format!("{life} sends {key} under epoch {epoch}, which there never was"),
            );
        };
        if lease.life != *life {
            violated(found, NAME, format!("{life} sends {key} under the lease of {}", lease.life));
        }
        if lease.until <= truth.now {
            violated(found, NAME, format!("{life} sends {key} after its lease {epoch} was over"));
        }
        if let Some(recorded) = truth.sagas.get(saga)
            && recorded.saga.epoch != *epoch
        {
            let owner = recorded.saga.epoch;
            violated(found, NAME, format!("{life} sends {key} under epoch {epoch}, but {owner} owns it"));
        }
    }
}
