//! What every participant has, however it is reached: a limit of calls in flight, and a breaker.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::breaker::{Ending, Leave, SharedBreaker};
use crate::limit::{self, Limit};
use crate::port::{Called, HeldReason};

pub(crate) struct Door {
    pub(crate) breaker: SharedBreaker,
    pub(crate) limit: Limit,
}

impl Door {
    pub(crate) fn new(name: &str, max_concurrency: usize) -> Arc<Self> {
        Arc::new(Self { breaker: SharedBreaker::new(name), limit: Limit::new(max_concurrency) })
    }

    /// Leave to call.
    ///
    /// # Errors
    /// [`Called::Held`]: by the limit after a second, by an open breaker at once, since then hardly a place is taken.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<Permit, Called> {
        let held = |reason, retry_in_ms| Called::Held { reason, retry_in_ms };
        let Some(place) = self.limit.enter().await else {
            let again_ms = u64::try_from(limit::WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
            return Err(held(HeldReason::LimitFull, again_ms));
        };
        // In this order: the breaker may open during the wait, and only who has a place may be its probe.
        match self.breaker.ask() {
            Leave::Go => Ok(Permit { door: self.clone(), probe: false, ended: false, _place: place }),
            Leave::Probe => Ok(Permit { door: self.clone(), probe: true, ended: false, _place: place }),
            Leave::Wait(ms) => Err(held(HeldReason::BreakerOpen, ms)),
        }
    }
}

/// A place among the calls in flight, and perhaps the breaker's probe. Dropped without [`Permit::end`] it tells the breaker
/// nothing, so that a call that is cut short neither opens nor blocks it.
pub(crate) struct Permit {
    door: Arc<Door>,
    probe: bool,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Permit {
    /// Tells the breaker how the call ended, and frees the place.
    pub(crate) fn end(mut self, ending: Ending) {
        self.ended = true;
        self.door.breaker.ended(ending, self.probe);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.ended {
            self.door.breaker.ended(Ending::Silent, self.probe);
        }
    }
}
