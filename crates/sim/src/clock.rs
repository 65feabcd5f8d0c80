//! Time: one paused clock for the world, and what each node takes it for.

use std::sync::atomic::{AtomicI64, Ordering};

use amends_core::Time;
use amends_engine::Clock;
use tokio::time::Instant;

/// When every simulated world begins, on the store's clock.
pub(crate) const BEGINNING: Time = Time(1_700_000_000_000);

/// A node's clock: the world's, with an error. Somebody may set it while the node lives.
#[derive(Debug)]
pub(crate) struct NodeClock {
    began: Instant,
    wrong_by_ms: AtomicI64,
    /// The clock that leases are measured on stands still: a planted bug.
    stands_still: bool,
}

impl NodeClock {
    pub(crate) fn new(began: Instant, wrong_by_ms: i64, stands_still: bool) -> Self {
        Self { began, wrong_by_ms: AtomicI64::new(wrong_by_ms), stands_still }
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set(&self, wrong_by_ms: i64) {
        self.wrong_by_ms.store(wrong_by_ms, Ordering::SeqCst);
    }
}

/// The true time in a world that began at `began`.
pub(crate) fn true_time(began: Instant) -> Time {
    BEGINNING.plus_ms(elapsed_ms(began))
}

fn elapsed_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Clock for NodeClock {
    fn now(&self) -> Time {
        Time(true_time(self.began).0.saturating_add(self.wrong_by_ms.load(Ordering::SeqCst)))
    }

    fn running_ms(&self) -> u64 {
        if self.stands_still { 0 } else { elapsed_ms(self.began) }
    }
}
