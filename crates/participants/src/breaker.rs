//! When to leave a participant alone (rule 10): a state machine without a clock, and the little that shares it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// So many failures in a row open the breaker.
pub const FAILURES_TO_OPEN: usize = 5;
/// … if the first and the last of them are at most so far apart.
pub const FAILURE_WINDOW_MS: u64 = 30_000;
/// How long it stays open before the first probe.
pub const OPEN_FIRST_MS: u64 = 5_000;
/// Each failed probe doubles the wait, up to this.
pub const OPEN_MAX_MS: u64 = 60_000;
/// What a caller is told to wait while a probe is under way: its end is not known, but it is usually near.
pub const PROBE_WAIT_MS: u64 = 1_000;

/// A breaker. Times are milliseconds on any clock that never runs backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breaker {
    /// Calls go through.
    Closed {
        /// When the calls failed that failed since the last success; fewer than [`FAILURES_TO_OPEN`].
        failed_at: Vec<u64>,
    },
    /// Calls are held back.
    Open {
        /// When one may probe.
        until: u64,
        /// How long this wait is.
        wait_ms: u64,
    },
    /// One call is trying; the others are held back.
    Probing {
        /// How long the wait before it was.
        wait_ms: u64,
    },
}

/// What a breaker says to a call that wants to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Go.
    Go,
    /// Go; the others wait for what becomes of you.
    Probe,
    /// Do not go before so many milliseconds have passed.
    Wait(u64),
}

/// How a call ended, as far as a breaker cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The participant answered, be it with a refusal.
    Answered,
    /// It did not answer, could not be reached, or said that it is unwell.
    Failed,
    /// The call ended without telling anything about the participant.
    Silent,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failed_at: Vec::new() }
    }
}

impl Breaker {
    /// Whether a call may go at `now`. [`Leave::Probe`] must be followed by [`Breaker::ended`] with `probe`.
    pub fn ask(&mut self, now: u64) -> Leave {
        match self {
            Self::Closed { .. } => Leave::Go,
            Self::Open { until, .. } if now < *until => Leave::Wait(*until - now),
            Self::Open { wait_ms, .. } => {
                *self = Self::Probing { wait_ms: *wait_ms };
                Leave::Probe
            }
            Self::Probing { .. } => Leave::Wait(PROBE_WAIT_MS),
        }
    }

    /// Takes in how a call ended at `now`; `probe` if it went as one.
    ///
    /// Calls that went before the breaker opened end after it did: their failures say nothing new, an answer does.
    pub fn ended(&mut self, now: u64, ending: Ending, probe: bool) {
        match (ending, &mut *self) {
            (Ending::Answered, _) => *self = Self::default(),
            (Ending::Failed, Self::Closed { failed_at }) => {
                failed_at.retain(|at| now.saturating_sub(*at) <= FAILURE_WINDOW_MS);
                failed_at.push(now);
                if failed_at.len() >= FAILURES_TO_OPEN {
                    *self = Self::opened(now, OPEN_FIRST_MS);
                }
            }
            (Ending::Failed, Self::Probing { wait_ms }) if probe => {
                *self = Self::opened(now, (*wait_ms * 2).min(OPEN_MAX_MS));
            }
            // Whoever asks next probes in its place, at once.
            (Ending::Silent, Self::Probing { wait_ms }) if probe => {
                *self = Self::Open { until: now, wait_ms: *wait_ms }
            }
            (Ending::Failed, Self::Open { .. } | Self::Probing { .. }) | (Ending::Silent, _) => {}
        }
    }

    fn opened(now: u64, wait_ms: u64) -> Self {
        Self::Open { until: now + wait_ms, wait_ms }
    }
}

/// What a breaker's state is called in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// Calls are held back.
    Open,
    /// One call is trying.
    Probing,
}

impl BreakerState {
    /// `closed`, `open` or `probing`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}

impl From<&Breaker> for BreakerState {
    fn from(breaker: &Breaker) -> Self {
        match breaker {
            Breaker::Closed { .. } => Self::Closed,
            Breaker::Open { .. } => Self::Open,
            Breaker::Probing { .. } => Self::Probing,
        }
    }
}

/// A breaker that the calls to one participant share, on the runtime's monotonic clock.
#[derive(Debug)]
pub(crate) struct SharedBreaker {
    name: String,
    started: Instant,
    breaker: Mutex<Breaker>,
}

impl SharedBreaker {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), started: Instant::now(), breaker: Mutex::default() }
    }

    pub(crate) fn state(&self) -> BreakerState {
        (&*self.lock()).into()
    }

    pub(crate) fn ask(&self) -> Leave {
        self.lock().ask(self.now())
    }

    pub(crate) fn ended(&self, ending: Ending, probe: bool) {
        let mut breaker = self.lock();
        let before = BreakerState::from(&*breaker);
        breaker.ended(self.now(), ending, probe);
        let after = BreakerState::from(&*breaker);
        drop(breaker);
        match (before, after) {
            (BreakerState::Closed, BreakerState::Open) => {
                tracing::warn!(
                    participant = self.name,
                    "{FAILURES_TO_OPEN} failures in a row: calls to it are held back"
                );
            }
            (BreakerState::Open | BreakerState::Probing, BreakerState::Closed) => {
                tracing::info!(participant = self.name, "it answers again: calls to it go through");
            }
            (BreakerState::Closed | BreakerState::Open | BreakerState::Probing, _) => {}
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Breaker> {
        // The machine is whole after each of its methods, so a panic elsewhere left nothing half done.
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a table of lines `at ms: event → what is expected`. Events: `ask`; `answered`, `failed`, `silent`, with
    /// `probe` before them if the call went as one.
    fn check(table: &str) {
        let mut breaker = Breaker::default();
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (at, rest) = line.split_once(':').expect("at: event → expected");
            let (event, expected) = rest.split_once('→').expect("event → expected");
            let now = at.trim().parse().expect("milliseconds");
            let probe = event.contains("probe");
            let got = match event.replace("probe", "").trim() {
                "ask" => format!("{:?}", breaker.ask(now)),
                "answered" => ended(&mut breaker, now, Ending::Answered, probe),
                "failed" => ended(&mut breaker, now, Ending::Failed, probe),
                "silent" => ended(&mut breaker, now, Ending::Silent, probe),
                other => panic!("no such event: {other}"),
            };
            assert_eq!(got, expected.trim(), "{line}");
        }
    }

    fn ended(breaker: &mut Breaker, now: u64, ending: Ending, probe: bool) -> String {
        breaker.ended(now, ending, probe);
        BreakerState::from(&*breaker).as_str().to_owned()
    }

    #[test]
    fn rule_10_five_failures_in_a_row_open_it() {
        check(
            "0: failed → closed
             1: failed → closed
             2: failed → closed
             3: failed → closed
             4: ask → Go
             4: failed → open
             4: ask → Wait(5000)
             5003: ask → Wait(1)
             5004: ask → Probe",
        );
    }

    #[test]
    fn rule_10_an_answer_breaks_the_row() {
        check(
            "0: failed → closed
             1: failed → closed
             2: failed → closed
             3: failed → closed
             4: answered → closed
             5: failed → closed
             6: silent → closed
             7: failed → closed
             8: failed → closed
             9: failed → closed
             10: failed → open",
        );
    }

    #[test]
    fn rule_10_failures_further_apart_than_the_window_do_not_open_it() {
        check(
            "0: failed → closed
             10000: failed → closed
             20000: failed → closed
             30000: failed → closed
             30001: failed → closed
             40000: failed → open",
        );
    }

    #[test]
    fn rule_10_probes_go_one_at_a_time_after_waits_that_double_to_a_minute() {
        check(
            "0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → open
             5000: ask → Probe
             5000: ask → Wait(1000)
             6000: probe failed → open
             6000: ask → Wait(10000)
             16000: ask → Probe
             16000: probe failed → open
             36000: ask → Probe
             36000: probe failed → open
             36000: ask → Wait(40000)
             76000: ask → Probe
             76000: probe failed → open
             76000: ask → Wait(60000)
             136000: ask → Probe
             136000: probe failed → open
             136000: ask → Wait(60000)
             196000: ask → Probe
             196001: probe answered → closed
             196001: ask → Go",
        );
    }

    #[test]
    fn a_closed_again_breaker_begins_with_the_short_wait() {
        check(
            "0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → open
             5000: ask → Probe
             5000: probe failed → open
             15000: ask → Probe
             15000: probe answered → closed
             15001: failed → closed
             15001: failed → closed
             15001: failed → closed
             15001: failed → closed
             15001: failed → open
             15001: ask → Wait(5000)",
        );
    }

    #[test]
    fn calls_that_went_before_it_opened_neither_prolong_the_wait_nor_fail_the_probe() {
        check(
            "0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → open
             3000: failed → open
             3000: ask → Wait(2000)
             5000: ask → Probe
             5001: failed → probing
             5001: silent → probing
             5002: answered → closed",
        );
    }

    #[test]
    fn a_probe_that_tells_nothing_makes_way_for_another() {
        check(
            "0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → closed
             0: failed → open
             5000: ask → Probe
             5100: probe silent → open
             5100: ask → Probe
             5200: probe failed → open
             5200: ask → Wait(10000)",
        );
    }
}
