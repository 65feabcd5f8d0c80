//! The two clocks of locks: one for who keeps them, one for who holds them.

use amends_core::Time;

/// Milliseconds on a clock that never runs backwards and does run while the machine is suspended: a holder measures its lease on it,
/// and so does a node.
#[must_use]
pub fn running_ms() -> u64 {
    let now = rustix::time::clock_gettime(RUNNING);
    let ms = now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000);
    u64::try_from(ms).unwrap_or(0)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const RUNNING: rustix::time::ClockId = rustix::time::ClockId::Boottime;

// Elsewhere the wall clock is the one that runs through suspend. Set forward, it ends a lease early: a holder stops, a node joins again.
// Set back, the token still decides, or the store's own clock.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RUNNING: rustix::time::ClockId = rustix::time::ClockId::Realtime;

/// The wall clock as it was when this was made, and from then on the running one: a wall clock that is set neither ends leases nor
/// prolongs them. For backends that live in the process that uses them; servers have a clock of their own.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    wall: Time,
    running_ms: u64,
}

impl Steady {
    /// Starts from the wall clock.
    #[must_use]
    pub fn new() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { wall: Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)), running_ms: running_ms() }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Time {
        self.wall.plus_ms(running_ms().saturating_sub(self.running_ms))
    }
}

impl Default for Steady {
    fn default() -> Self {
        Self::new()
    }
}
