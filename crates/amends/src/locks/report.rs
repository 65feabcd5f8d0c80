//! What became of locks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use amends_store::Error;
use amends_store::locks::{Because, Lease, Lost, Release};

/// How many reports are kept: enough to see what happened of late, and no more than a few pages.
pub const REPORTS_MAX: usize = 256;

/// What became of a release. It says nothing about whether the work succeeded, and nothing is to be decided by it: what has to be recovered
/// is in the durable state.
#[derive(Debug, Clone)]
#[must_use]
pub enum ReleaseOutcome {
    /// The lock is free.
    Released,
    /// There was nothing to release any more: the lease had passed, or somebody else has the lock.
    LeaseLost(Lost),
    /// The lock has another owner. Nothing was released.
    OwnerMismatch,
    /// The backend was not reached, or did not answer: the lease ends by itself.
    Unreachable(Error),
}

impl ReleaseOutcome {
    /// One word: `released`, `lease_lost`, `owner_mismatch` or `unreachable`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::LeaseLost(_) => "lease_lost",
            Self::OwnerMismatch => "owner_mismatch",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl fmt::Display for ReleaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lock was released"),
            Self::LeaseLost(lost) => write!(f, "the lease was lost before ({})", lost.as_str()),
            Self::OwnerMismatch => f.write_str("the lock has another owner"),
            Self::Unreachable(error) => {
                write!(f, "the lock was not released, its lease ends by itself: {error}")
            }
        }
    }
}

/// What became of one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The lock.
    pub lock: String,
    /// Its fencing token.
    pub token: u64,
    /// What became of it.
    pub what: Reported,
}

/// What a [`Report`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// It was to be released because a saga covers it, or was abandoned: the outcome in one word.
    Release(&'static str),
    /// It was dropped while nothing was committed: the lease ends by itself.
    DroppedHeld,
    /// It was dropped with a transaction that was neither committed nor rolled back through it: the lease ends by itself.
    DroppedPending,
    /// It was dropped although a saga covers it: the lease ends by itself, later than it had to.
    DroppedCovered,
    /// Nobody knows whether its transaction was committed: the lease ends by itself.
    CommitUnknown,
}

/// The latest reports.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<VecDeque<Report>>);

impl Reports {
    pub(crate) fn all(&self) -> Vec<Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn add(&self, lease: &Lease, what: Reported) {
        let report = Report { lock: lease.name().to_string(), token: lease.token(), what };
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.len() == REPORTS_MAX {
            reports.pop_front();
        }
        reports.push_back(report);
    }
}

/// A lease on its way, whose end is reported whatever happens. Dropped, it says at which point; the lease itself warns in the log, and is
/// never released by being dropped.
pub(crate) struct Guard {
    lease: Lease,
    reports: Arc<Reports>,
    /// What a drop means; `None` once its end was reported.
    dropped: Option<Reported>,
}

impl Guard {
    pub(crate) fn new(lease: Lease, reports: Arc<Reports>) -> Self {
        Self { lease, reports, dropped: Some(Reported::DroppedHeld) }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// From now on a drop means this.
    pub(crate) fn at(mut self, dropped: Reported) -> Self {
        self.dropped = Some(dropped);
        self
    }

    /// Releases it. Dropped meanwhile, it counts as dropped where it was: the backend may have been told or not.
    pub(crate) async fn release(mut self, because: &Because) -> ReleaseOutcome {
        let outcome = match self.lease.release(because).await {
            Ok(Release::Released) => ReleaseOutcome::Released,
            Ok(Release::LeaseLost(lost)) => ReleaseOutcome::LeaseLost(lost),
            Ok(Release::OwnerMismatch) => ReleaseOutcome::OwnerMismatch,
            Err(error) => ReleaseOutcome::Unreachable(error),
        };
        self.dropped = None;
        self.reports.add(&self.lease, Reported::Release(outcome.as_str()));
        outcome
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(what) = self.dropped.take() {
            self.reports.add(&self.lease, what);
        }
    }
}
