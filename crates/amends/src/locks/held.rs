//! A lock that is held, under which nothing has been committed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use amends_store::locks::{Because, Lease, LeaseOver, REASON_BYTES_MAX};
use serde::Serialize;

use super::report::{Guard, ReleaseOutcome, Reports};
use crate::Saga;
use crate::tx::{NotSubmitted, Pending, Submission, Transaction};

/// What is recorded where a lock is abandoned without a word.
const NO_REASON: &str = "no reason given";

/// A lock that is held, under which nothing has been committed: it cannot be released, only covered or abandoned.
///
/// Nothing renews it in the background: the work calls [`Held::renew_if_needed`] as it gets on. Dropped, it is not released: the lease ends by
/// itself, the log has a warning and [`Locks::reports`](super::Locks::reports) a line.
#[must_use = "a lock that is dropped stays held until its lease has passed"]
pub struct Held {
    guard: Guard,
    /// The transaction's own statements refuse a token that is too low.
    fenced_by_resource: bool,
}

impl Held {
    pub(crate) fn new(lease: Lease, reports: Arc<Reports>) -> Self {
        Self::of(Guard::new(lease, reports), false)
    }

    pub(crate) fn of(guard: Guard, fenced_by_resource: bool) -> Self {
        Self { guard, fenced_by_resource }
    }

    pub(crate) fn into_guard(self) -> (Guard, bool) {
        (self.guard, self.fenced_by_resource)
    }

    #[allow(dead_code, reason = "only drivers ask, and each is behind a feature")]
    pub(crate) fn is_fenced_by_resource(&self) -> bool {
        self.fenced_by_resource
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.guard.lease().name().as_str()
    }

    /// The fencing token, higher than all that were given for this name before: to be sent with every write, for the resource to refuse a lower
    /// one than the highest it saw.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.guard.lease().token()
    }

    /// How long the lease certainly lasts; zero once it is over.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.guard.lease().left()
    }

    /// The token, if the lease certainly lasts at this moment. Asks nobody: call it right before each write.
    ///
    /// # Errors
    /// [`LeaseOver`]: stop, and write nothing more.
    pub fn check(&self) -> Result<u64, LeaseOver> {
        self.guard.lease().check()
    }

    /// Renews once a third of the lease has passed; else it only checks. To be called by the work itself wherever it gets on.
    ///
    /// # Errors
    /// [`LeaseOver`]: stop, and write nothing more.
    pub async fn renew_if_needed(&self) -> Result<u64, LeaseOver> {
        self.guard.lease().renew_if_needed().await
    }

    /// Returns once the lease is over.
    pub async fn over(&self) -> LeaseOver {
        self.guard.lease().over().await
    }

    /// Says that the resource itself checks the token, in the statements of the transaction to come. For locks that are kept elsewhere than in the
    /// transaction's database, such as in Redis: there, [`Held::submit_in`] cannot look whether the lock is still held, and refuses otherwise.
    pub fn fenced_by_resource(mut self) -> Self {
        self.fenced_by_resource = true;
        self
    }

    /// Submits a saga in a transaction, beside the business rows that were and will be written in it, and checks in the same transaction that the
    /// lock is still held under this token. Committed, both are durable or neither is; the saga covers the lock: its id, or one of its claims,
    /// has to be the lock's name.
    ///
    /// Answers as the transaction's driver does: rusqlite at once, sqlx with a future.
    ///
    /// # Errors
    /// [`NotSubmitted`], with the lock: the transaction has been rolled back, so that there is nothing to recover.
    pub fn submit_in<'a, T: Transaction + 'a, I: Serialize>(
        self,
        tx: T,
        saga: &Saga<I>,
        id: impl Into<String>,
        input: &I,
    ) -> T::Answer<'a, Result<Pending<T>, NotSubmitted>> {
        let submission = Submission::new(saga, id.into(), input);
        let submission = submission.and_then(|submission| submission.covering(&self));
        tx.submit_held(self, submission)
    }

    /// Lets the lock go because there is nothing to recover: nothing was done under it, or nothing that lasts. The reason is kept in the lock's
    /// record, as one line of up to 1,024 bytes.
    pub async fn abandon(self, reason: impl fmt::Display) -> ReleaseOutcome {
        self.guard.release(&Because::Abandon(one_line(&reason.to_string()))).await
    }

    /// As [`Held::abandon`], with the result of the work handed through: whatever becomes of the release, it is this.
    pub async fn abandon_after<R>(self, result: R, reason: impl fmt::Display) -> (R, ReleaseOutcome) {
        let outcome = self.abandon(reason).await;
        (result, outcome)
    }
}

/// A reason as a lock's record takes it.
fn one_line(reason: &str) -> String {
    let mut line = String::new();
    for c in reason.trim().chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > REASON_BYTES_MAX {
            break;
        }
        line.push(c);
    }
    if line.is_empty() { NO_REASON.to_owned() } else { line }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(one_line(" sold\nout "), "sold out");
        assert_eq!(one_line(" \n"), NO_REASON);
        let long = one_line(&"ä".repeat(REASON_BYTES_MAX));
        assert_eq!(long.len(), REASON_BYTES_MAX);
        for reason in ["sold\nout", "", &long] {
            assert!(Because::abandon(one_line(reason)).is_ok());
        }
    }
}
