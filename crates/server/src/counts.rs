//! What the server counts itself, and what it remembers of the store's counts for a moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use amends_engine::{Engine, Refused};
use amends_store::{DeadGroup, Stats};
use tokio::sync::Mutex;

use crate::dto::Stamp;
use crate::problem::Kind;

/// How long counts over the whole store are remembered: many may look at once, and each look costs what is open.
const REMEMBER: Duration = Duration::from_secs(1);

/// The most groups of dead letters that are told apart.
pub(crate) const GROUPS_MAX: usize = 500;

/// Refusals by kind, since the server began.
#[derive(Debug)]
pub(crate) struct Refusals([AtomicU64; Kind::ALL.len()]);

impl Refusals {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    pub(crate) fn count(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Each kind that occurred, with its number.
    pub(crate) fn counts(&self) -> Vec<(Kind, u64)> {
        let counts = Kind::ALL.into_iter().map(|kind| (kind, self.0[kind as usize].load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// Calls of locks by what they were answered, since the server began.
#[derive(Debug, Default)]
pub(crate) struct LockCounts(std::sync::Mutex<BTreeMap<[&'static str; 2], u64>>);

impl LockCounts {
    /// Both words are of a short list.
    pub(crate) fn count(&self, call: &'static str, answer: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry([call, answer]).or_default() += 1;
    }

    pub(crate) fn all(&self) -> Vec<([&'static str; 2], u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(words, n)| (*words, *n)).collect()
    }
}

/// The store's counts, read at most once a second whoever asks.
pub(crate) struct Cached {
    counts: Mutex<Option<(Instant, Arc<Counts>)>>,
}

/// Counts over the whole store.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) stats: Stats,
    pub(crate) groups: Vec<DeadGroup>,
    pub(crate) as_of: Stamp,
}

impl Cached {
    pub(crate) fn new() -> Self {
        Self { counts: Mutex::new(None) }
    }

    /// The counts, at most [`REMEMBER`] old. Whoever comes while they are read waits for the same reading.
    pub(crate) async fn counts(&self, engine: &Engine) -> Result<Arc<Counts>, Refused> {
        let mut remembered = self.counts.lock().await;
        if let Some((at, counts)) = &*remembered
            && at.elapsed() < REMEMBER
        {
            return Ok(Arc::clone(counts));
        }
        let as_of = Stamp::now();
        let stats = engine.stats().await?;
        let groups = engine.dead_groups(GROUPS_MAX).await?;
        let counts = Arc::new(Counts { stats, groups, as_of });
        *remembered = Some((Instant::now(), Arc::clone(&counts)));
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_under_its_own_number() {
        let refusals = Refusals::new();
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            for _ in 0..=n {
                refusals.count(kind);
            }
        }
        let expected: Vec<_> = Kind::ALL.into_iter().zip(1..).collect();
        assert_eq!(refusals.counts(), expected);
    }
}
