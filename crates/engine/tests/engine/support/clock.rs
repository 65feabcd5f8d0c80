//! A clock that goes with tokio's paused one, and can be suspended and set.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use amends_core::Time;
use amends_engine::Clock;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct TestClock {
    began: Instant,
    /// Time that passed while the machine was suspended: no timer noticed it.
    suspended_ms: AtomicU64,
    /// How far the wall clock was set forward, or back.
    set_ms: AtomicI64,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), suspended_ms: AtomicU64::new(0), set_ms: AtomicI64::new(0) }
    }

    /// The machine sleeps and wakes up again.
    pub(crate) fn suspend(&self, for_ms: u64) {
        self.suspended_ms.fetch_add(for_ms, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock forward, or back.
    pub(crate) fn set(&self, by_ms: i64) {
        self.set_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(Time(1_700_000_000_000).plus_ms(self.running_ms()).0 + self.set_ms.load(Ordering::SeqCst))
    }

    fn running_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).expect("a test is short")
            + self.suspended_ms.load(Ordering::SeqCst)
    }
}
