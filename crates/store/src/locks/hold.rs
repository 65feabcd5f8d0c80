//! Work under a lock, which is stopped when the lease is over.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::{Ask, Because, Busy, Lease, LeaseOver, Locks, Release};
use crate::Error;

/// Why work did not take place, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Somebody else holds the lock. The work was not begun.
    #[error("the lock is held by {:?} for another {} ms at least", .0.label, .0.left_ms)]
    Busy(Busy),
    /// The backend could not be used. The work was not begun.
    #[error(transparent)]
    Store(#[from] Error),
    /// The lease ended first. The work was dropped where it waited; what it had written stays as it is.
    #[error(transparent)]
    Over(#[from] LeaseOver),
}

/// Work that came to its end while the lease lasted.
#[derive(Debug)]
pub struct Worked<T> {
    /// What it gave: whatever became of the release, it is this.
    pub value: T,
    /// The outcome of the release. `None`: the work gave no reason, so the lease was left to end by itself.
    pub release: Option<Result<Release, Error>>,
}

/// Does `work` under a lock.
///
/// `work` gets the lease, renews it as it goes on ([`Lease::renew_if_needed`]), and sends [`Lease::token`] with every write. It gives its value and why the lock
/// may be let go: a durable saga that covers what was done, or the reason why nothing has to be recovered. Without either the lock is not released:
/// the lease ends by itself. Before each of its steps the lease is looked at; once it is over, the work is dropped at the point where
/// it waits. Work that never waits cannot be dropped: it has to look by [`Lease::check`].
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use amends_store::locks::{Ask, Because, LockName, Locks, MemoryLocks, Release, Ttl, hold};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks: Arc<dyn Locks> = Arc::new(MemoryLocks::new());
/// let ask = Ask::new(LockName::new("order:789")?, Ttl::new(Duration::from_secs(30))?);
/// let worked = hold(locks, &ask, async |lease| {
///     for _page in 0..3 {
///         let Ok(token) = lease.renew_if_needed().await else { return ("stopped", None) };
///         // Every write carries `token`; the resource refuses one lower than the highest it saw.
///         assert!(token > 0);
///     }
///     ("counted", Because::abandon("nothing was written").ok())
/// })
/// .await?;
/// assert_eq!(worked.value, "counted");
/// assert!(matches!(worked.release, Some(Ok(Release::Released))));
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`HoldError`]: busy, the backend's, or the lease was over first.
pub async fn hold<T, F: Future<Output = (T, Option<Because>)>>(
    locks: Arc<dyn Locks>,
    ask: &Ask,
    work: impl FnOnce(Lease) -> F,
) -> Result<Worked<T>, HoldError> {
    let lease = Lease::acquire(locks, ask).await?.map_err(HoldError::Busy)?;
    let (value, because) = {
        let mut over = pin!(lease.over());
        let mut work = pin!(work(lease.clone()));
        poll_fn(|context| {
            // First of all, at every step: a process that stood still goes on with whatever is woken first.
            if let Err(over) = lease.check() {
                return Poll::Ready(Err(over));
            }
            if let Poll::Ready(over) = over.as_mut().poll(context) {
                return Poll::Ready(Err(over));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await?
    };
    let release = match because {
        Some(because) => Some(lease.release(&because).await),
        None => None,
    };
    Ok(Worked { value, release })
}
