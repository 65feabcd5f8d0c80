//! Where locks come from.

use std::sync::Arc;
use std::time::Duration;

use amends_store::locks::{Ask, Busy, Label, Lease, LockName, LockView, Locks as Port, Malformed, Ttl};

use tokio::time::{Instant, sleep};

use super::held::Held;
use super::report::{Report, Reports};

/// The first and the longest pause between two looks at a lock that is held: soon enough for people, rare enough for a database.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The locks beside a store: in the same file or database, or on the same Redis server. Cheap to clone.
#[derive(Clone)]
pub struct Locks {
    port: Arc<dyn Port>,
    reports: Arc<Reports>,
    label: Label,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// Somebody else holds it.
    #[error("the lock is held by {:?} for another {} ms at least", .0.label, .0.left_ms)]
    Busy(Busy),
    /// The name or the time is none that a lock can have.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The backend cannot be used. If its answer was lost, nobody may hold the lock until its lease has passed.
    #[error(transparent)]
    Store(#[from] amends_store::Error),
}

impl Locks {
    pub(crate) fn new(port: Arc<dyn Port>, who: &str) -> Self {
        // A name that is too long for a label is left out, not refused.
        Self { port, reports: Arc::default(), label: Label::new(who).unwrap_or_default() }
    }

    /// Acquires a lock, such as `order:789`, once and without waiting. Its lease lasts `ttl`, 100 ms to 24 h, unless the work renews it.
    ///
    /// Dropped before it returns, the lock may stay held until its lease has passed.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire(&self, name: impl Into<String>, ttl: Duration) -> Result<Held, AcquireError> {
        let mut ask = Ask::new(LockName::new(name)?, Ttl::new(ttl)?);
        ask.label = self.label.clone();
        match Lease::acquire(self.port.clone(), &ask).await? {
            Ok(lease) => Ok(Held::new(lease, self.reports.clone())),
            Err(busy) => Err(AcquireError::Busy(busy)),
        }
    }

    /// As [`Locks::acquire`], but tries again while somebody else holds it, for as long as `at_most`. There is no queue: of those who wait, whoever looks
    /// first gets it.
    ///
    /// # Errors
    /// [`AcquireError`]; [`AcquireError::Busy`] once the time is over.
    pub async fn acquire_within(
        &self,
        name: impl Into<String>,
        ttl: Duration,
        at_most: Duration,
    ) -> Result<Held, AcquireError> {
        let (name, until) = (name.into(), Instant::now() + at_most);
        let mut pause = PAUSE_FIRST;
        loop {
            let busy = match self.acquire(name.clone(), ttl).await {
                Err(AcquireError::Busy(busy)) => busy,
                answer => return answer,
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AcquireError::Busy(busy));
            }
            // No longer than it certainly is held, unless it is let go before.
            sleep(pause.min(left).min(Duration::from_millis(busy.left_ms.max(1)))).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// What is known of a lock: who holds it, and what became of the last release.
    ///
    /// # Errors
    /// As [`Locks::acquire`].
    pub async fn show(&self, name: impl Into<String>) -> Result<LockView, AcquireError> {
        Ok(self.port.show(&LockName::new(name)?).await?)
    }

    /// What became of the latest locks that came from here, oldest first: [`REPORTS_MAX`](super::REPORTS_MAX) of them. What a backend was told is
    /// in the lock's record too; that a lock was dropped is only here and in the log.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        self.reports.all()
    }
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}
