//! A lock that may be released: a durable saga recovers what was done under it.

use std::fmt;

use amends_core::SagaId;
use amends_store::locks::Because;

use super::report::{Guard, ReleaseOutcome, Reported};

/// A lock whose holder's work is committed, together with the saga that brings it to an end: it may be released. Only a commit makes one.
///
/// Dropped, it is not released: the lease ends by itself.
#[must_use = "a lock that is dropped stays held until its lease has passed"]
pub struct Covered {
    guard: Guard,
    saga: SagaId,
}

impl Covered {
    pub(crate) fn new(guard: Guard, saga: SagaId) -> Self {
        Self { guard: guard.at(Reported::DroppedCovered), saga }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.guard.lease().name().as_str()
    }

    /// The fencing token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.guard.lease().token()
    }

    /// The saga that covers it.
    #[must_use]
    pub fn saga(&self) -> &SagaId {
        &self.saga
    }

    /// Releases the lock. The outcome is in the lock's record, in the log and in [`Locks::reports`](super::Locks::reports); whatever it is, the saga goes on.
    pub async fn release(self) -> ReleaseOutcome {
        let because = Because::Saga(self.saga);
        self.guard.release(&because).await
    }

    /// As [`Covered::release`], with the result of the work handed through: whatever becomes of the release, it is this.
    pub async fn release_after<R>(self, result: R) -> (R, ReleaseOutcome) {
        let outcome = self.release().await;
        (result, outcome)
    }
}

impl fmt::Debug for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Covered")
            .field("name", &self.name())
            .field("token", &self.token())
            .field("saga", &self.saga)
            .finish()
    }
}
