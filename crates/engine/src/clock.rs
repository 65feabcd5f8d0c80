//! The engine's clocks, behind a port: the simulation has its own.

use std::time::Duration;

use amends_core::Time;
use async_trait::async_trait;

/// What time it is.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The wall clock. It may jump; it is written into entries and shown to people.
    fn now(&self) -> Time;

    /// Milliseconds on a clock that never runs backwards and does run while the machine is suspended. The node's lease is
    /// measured on it.
    fn running_ms(&self) -> u64;

    /// Returns once [`Clock::now`] is `at` or later.
    async fn sleep_until(&self, at: Time);
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The wall clock may be set while somebody sleeps, so nobody sleeps longer than this without looking at it again.
const SLEEP_MAX: Duration = Duration::from_secs(10);

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn running_ms(&self) -> u64 {
        let now = rustix::time::clock_gettime(RUNNING);
        let ms = now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000);
        u64::try_from(ms).unwrap_or(0)
    }

    async fn sleep_until(&self, at: Time) {
        loop {
            let left = at.since_ms(self.now());
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left).min(SLEEP_MAX)).await;
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const RUNNING: rustix::time::ClockId = rustix::time::ClockId::Boottime;

// Elsewhere the wall clock is the one that runs through suspend everywhere; a node whose lease seems to have lapsed
// because the clock was set forward only joins again. Set back, the store's own clock still ends the lease.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RUNNING: rustix::time::ClockId = rustix::time::ClockId::Realtime;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_when_the_wall_clock_says_so() {
        let clock = SystemClock;
        let at = clock.now().plus_ms(20);
        clock.sleep_until(at).await;
        assert!(clock.now() >= at);
    }

    #[test]
    fn the_running_clock_does_not_run_backwards() {
        let before = SystemClock.running_ms();
        assert!(SystemClock.running_ms() >= before);
    }
}
