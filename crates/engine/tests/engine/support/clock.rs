//! A clock that goes with tokio's paused one, and can be suspended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use amends_core::Time;
use amends_engine::Clock;
use async_trait::async_trait;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct TestClock {
    began: Instant,
    /// Time that passed while the machine was suspended: no timer noticed it.
    suspended_ms: AtomicU64,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), suspended_ms: AtomicU64::new(0) }
    }

    /// The machine sleeps and wakes up again.
    pub(crate) fn suspend(&self, for_ms: u64) {
        self.suspended_ms.fetch_add(for_ms, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(1_700_000_000_000).plus_ms(self.running_ms())
    }

    fn running_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).expect("a test is short")
            + self.suspended_ms.load(Ordering::SeqCst)
    }

    async fn sleep_until(&self, at: Time) {
        while self.now() < at {
            tokio::time::sleep(Duration::from_millis(at.since_ms(self.now()))).await;
        }
    }
}
