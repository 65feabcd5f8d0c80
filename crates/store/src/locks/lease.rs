//! A lease in its holder's hands: renewed by the work itself, believed no longer than it certainly lasts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use super::{Acquired, Ask, Because, Busy, Hold, LockName, Locks, Lost, Release, Renewal, Ttl, running_ms};
use crate::{Error, Kind};

/// The longest margin: clocks of machines that keep time at all do not drift by more within a lease of a day's renewals.
const MARGIN_MS_MAX: u64 = 2_000;
/// How often a waiting guard looks at the clock: timers stand still while a machine is suspended, the clock does not.
const LOOK: Duration = Duration::from_millis(500);

/// How much earlier than the backend a holder stops believing in its lease: for clocks that drift and a process that is slow to notice.
/// A tenth of what is left, two seconds at most.
#[must_use]
pub fn margin_ms(left_ms: u64) -> u64 {
    (left_ms / 10).min(MARGIN_MS_MAX)
}

/// Why a holder must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseOver {
    /// It was not renewed in time.
    #[error("the lease has passed without a renewal: stop, and write nothing more under its token")]
    Passed,
    /// The backend says that it is over.
    #[error("the lease was lost ({}): stop, and write nothing more under its token", .0.as_str())]
    Lost(Lost),
    /// The backend says that the owner is another one.
    #[error("the lock has another owner: stop, and write nothing more under this token")]
    OwnerMismatch,
}

/// A lease. Clones are the same lease.
///
/// Nothing renews it in the background: a heartbeat would keep the lock of a worker that hangs or is gone. The work calls
/// [`Lease::renew_if_needed`] as it goes on. The last clone dropped without a release leaves the lease to end by itself, and says so in the log.
#[derive(Clone)]
pub struct Lease(Arc<Inner>);

struct Inner {
    locks: Arc<dyn Locks>,
    hold: Hold,
    ttl: Ttl,
    state: watch::Sender<State>,
    /// One renewal at a time.
    renewing: Mutex<()>,
}

/// All on the running clock of this machine.
#[derive(Debug, Clone, Copy)]
struct State {
    valid_until_ms: u64,
    renew_at_ms: u64,
    over: Option<LeaseOver>,
    released: bool,
}

impl Lease {
    /// Acquires a lock once, without waiting for it. An answer that was lost is asked for once more, under the same owner.
    ///
    /// # Errors
    /// The backend's. After [`Kind::Indeterminate`] the lock may be held by nobody until `ttl` has passed; `ask` again is safe.
    pub async fn acquire(locks: Arc<dyn Locks>, ask: &Ask) -> Result<Result<Self, Busy>, Error> {
        // Before the request: however long it takes, the backend's lease began later.
        let mut sent_ms = running_ms();
        let acquired = match locks.acquire(ask).await {
            Err(error) if error.kind == Kind::Indeterminate => {
                sent_ms = running_ms();
                locks.acquire(ask).await?
            }
            other => other?,
        };
        let granted = match acquired {
            Acquired::Held(granted) => granted,
            Acquired::Busy(busy) => return Ok(Err(busy)),
        };
        let state = State {
            valid_until_ms: sent_ms + granted.left_ms - margin_ms(granted.left_ms),
            renew_at_ms: sent_ms + granted.left_ms / 3,
            over: None,
            released: false,
        };
        let hold = Hold { name: ask.name.clone(), owner: Some(ask.owner.clone()), token: granted.token };
        let (state, _) = watch::channel(state);
        Ok(Ok(Self(Arc::new(Inner { locks, hold, ttl: ask.ttl, state, renewing: Mutex::default() }))))
    }

    /// The lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.0.hold.name
    }

    /// The fencing token, whether or not the lease still lasts: to be sent with every write.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.hold.token
    }

    /// What to show the backend, or somebody who is to release it.
    #[must_use]
    pub fn as_hold(&self) -> &Hold {
        &self.0.hold
    }

    /// How long it certainly lasts without a renewal; zero once it is over.
    #[must_use]
    pub fn left(&self) -> Duration {
        let state = *self.0.state.borrow();
        if state.over.is_some() {
            return Duration::ZERO;
        }
        Duration::from_millis(state.valid_until_ms.saturating_sub(running_ms()))
    }

    /// The token, if the lease certainly lasts at this moment. Asks nobody: call it right before each write. Once it has failed it always
    /// fails. A process that stands still between this and the write is why the resource checks the token too.
    ///
    /// # Errors
    /// [`LeaseOver`]: stop.
    pub fn check(&self) -> Result<u64, LeaseOver> {
        let state = *self.0.state.borrow();
        if let Some(over) = state.over {
            return Err(over);
        }
        if state.valid_until_ms <= running_ms() {
            self.end(LeaseOver::Passed);
            return Err(LeaseOver::Passed);
        }
        Ok(self.token())
    }

    /// Renews once a third of the lease has passed; else it only checks. To be called by the work itself wherever it gets on. A backend that does
    /// not answer is asked again at a later call, until the lease has passed.
    ///
    /// # Errors
    /// [`LeaseOver`]: stop.
    pub async fn renew_if_needed(&self) -> Result<u64, LeaseOver> {
        let token = self.check()?;
        if running_ms() < self.0.state.borrow().renew_at_ms {
            return Ok(token);
        }
        self.renew().await
    }

    /// Renews now.
    ///
    /// # Errors
    /// [`LeaseOver`]: stop.
    pub async fn renew(&self) -> Result<u64, LeaseOver> {
        let inner = &self.0;
        let _one = inner.renewing.lock().await;
        self.check()?;
        let sent_ms = running_ms();
        // An answer after its end would come too late: the work has been stopped by then.
        match timeout(self.left(), inner.locks.renew(&inner.hold, inner.ttl)).await {
            Ok(Ok(Renewal::Renewed { left_ms })) => inner.state.send_modify(|state| {
                state.valid_until_ms = state.valid_until_ms.max(sent_ms + left_ms - margin_ms(left_ms));
                state.renew_at_ms = sent_ms + left_ms / 3;
            }),
            Ok(Ok(Renewal::Lost(lost))) => self.end(LeaseOver::Lost(lost)),
            Ok(Ok(Renewal::OwnerMismatch)) => self.end(LeaseOver::OwnerMismatch),
            Ok(Err(error)) => {
                tracing::warn!(lock = %self.name(), "the lease was not renewed: {error}");
                // Not at once again: whoever cannot be reached is not reached sooner by being asked more often.
                inner.state.send_modify(|state| state.renew_at_ms = sent_ms + inner.ttl.ms() / 12);
            }
            Err(_) => {}
        }
        self.check()
    }

    /// Returns once the lease is over.
    pub async fn over(&self) -> LeaseOver {
        let mut changes = self.0.state.subscribe();
        loop {
            if let Err(over) = self.check() {
                return over;
            }
            tokio::select! {
                () = sleep(self.left().min(LOOK)) => {}
                // The sender lives as long as `self`.
                _ = changes.changed() => {}
            }
        }
    }

    /// Releases the lock. The outcome is in the lock's record and in the log; it says nothing about whether the work succeeded. A backend that
    /// cannot be reached keeps the lock until the lease has passed.
    ///
    /// # Errors
    /// The backend's, also logged.
    pub async fn release(&self, because: &Because) -> Result<Release, Error> {
        self.0.state.send_modify(|state| {
            state.released = true;
            // Whoever has a clone must not go on either.
            state.over = state.over.or(Some(LeaseOver::Lost(Lost::Released)));
        });
        let released = self.0.locks.release(&self.0.hold, because).await;
        let (lock, token) = (self.name(), self.token());
        match &released {
            Ok(Release::Released) => tracing::debug!(%lock, token, "released"),
            Ok(outcome @ (Release::LeaseLost(_) | Release::OwnerMismatch)) => {
                tracing::warn!(%lock, token, outcome = outcome.as_str(), "the lock was not this holder's any more when it was released");
            }
            Err(error) => {
                tracing::warn!(%lock, token, outcome = "unreachable", "not released, the lease ends by itself: {error}")
            }
        }
        released
    }

    fn end(&self, over: LeaseOver) {
        self.0.state.send_modify(|state| state.over = state.over.or(Some(over)));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = *self.state.borrow();
        if !state.released {
            let left_ms = state.valid_until_ms.saturating_sub(running_ms());
            tracing::warn!(lock = %self.hold.name, token = self.hold.token, left_ms, "dropped without a release: the lease ends by itself");
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("hold", &self.0.hold)
            .field("state", &*self.0.state.borrow())
            .finish_non_exhaustive()
    }
}
