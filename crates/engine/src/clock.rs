//! The engine's clocks, behind a port: the simulation has its own.

use amends_core::Time;
use amends_store::locks::running_ms;

/// What time it is. Waiting is tokio's.
pub trait Clock: Send + Sync {
    /// The wall clock. It may jump: the engine's own time only leans towards it, so that a clock that is set does not make
    /// deadlines pass or retries wait.
    fn now(&self) -> Time;

    /// Milliseconds on a clock that never runs backwards and does run while the machine is suspended. The node's lease is
    /// measured on it.
    fn running_ms(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn running_ms(&self) -> u64 {
        running_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_clock_does_not_run_backwards() {
        let before = SystemClock.running_ms();
        assert!(SystemClock.running_ms() >= before);
    }
}
