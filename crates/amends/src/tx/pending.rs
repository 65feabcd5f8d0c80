//! A lock with an open transaction in which its saga is submitted.

use std::error::Error;
use std::fmt;

use super::{CommitFailed, NotSubmitted, Submission, SubmitError, Transaction, Unsure};
use crate::locks::{Covered, Held, Reported};

/// A lock whose saga is submitted in a transaction that is still open: the proof is pending. It owns the transaction, so that no other one can be
/// committed in its place.
///
/// Dropped, the transaction is rolled back by its driver, and the lock's lease ends by itself.
#[must_use = "nothing is durable before it is committed"]
pub struct Pending<T> {
    tx: T,
    held: Held,
    submission: Submission,
}

impl<T: Transaction> Pending<T> {
    #[allow(dead_code, reason = "only drivers make one, and each is behind a feature")]
    pub(crate) fn new(tx: T, held: Held, submission: Submission) -> Self {
        let (guard, fenced) = held.into_guard();
        Self { tx, held: Held::of(guard.at(Reported::DroppedPending), fenced), submission }
    }

    /// The transaction, for further statements.
    pub fn tx(&mut self) -> &mut T {
        &mut self.tx
    }

    /// The lock's fencing token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.held.token()
    }

    /// Commits. Right before, in the same transaction, the submission and the lock are looked at once more: a failed statement or a rolled back
    /// savepoint may have taken them away.
    ///
    /// # Errors
    /// [`CommitFailed`]: rolled back, with the lock; or nobody knows, and the lease ends by itself.
    pub fn commit<'a>(self) -> T::Answer<'a, Result<Covered, CommitFailed>>
    where
        T: 'a,
    {
        T::commit_pending(self)
    }

    /// Rolls back. There is nothing to recover: the lock can be abandoned, or used for another try.
    pub fn roll_back<'a>(self) -> T::Answer<'a, Held>
    where
        T: 'a,
    {
        T::roll_back_pending(self)
    }

    #[allow(dead_code, reason = "only drivers take it apart, and each is behind a feature")]
    pub(crate) fn into_parts(self) -> (T, Held, Submission) {
        (self.tx, self.held, self.submission)
    }
}

/// It is committed.
#[allow(dead_code, reason = "only drivers say so, and each is behind a feature")]
pub(crate) fn committed(held: Held, submission: Submission) -> Covered {
    Covered::new(held.into_guard().0, submission.id)
}

/// It is certainly rolled back.
#[allow(dead_code, reason = "only drivers say so, and each is behind a feature")]
pub(crate) fn rolled_back(held: Held) -> Held {
    let (guard, fenced) = held.into_guard();
    Held::of(guard.at(Reported::DroppedHeld), fenced)
}

/// It was not submitted or committed, and the transaction is certainly rolled back.
#[allow(dead_code, reason = "only drivers say so, and each is behind a feature")]
pub(crate) fn not_submitted(held: Held, error: SubmitError) -> NotSubmitted {
    NotSubmitted { held: rolled_back(held), error }
}

/// Nobody knows whether it is committed.
#[allow(dead_code, reason = "only drivers say so, and each is behind a feature")]
pub(crate) fn unsure(
    held: Held,
    submission: Submission,
    error: Box<dyn Error + Send + Sync>,
) -> CommitFailed {
    let (lock, token) = (held.name().to_owned(), held.token());
    tracing::warn!(lock, token, saga = %submission.id, "whether it was committed is not known; the lock stays until its lease has passed: {error}");
    // Dropped here: the lease is left to end by itself.
    drop(held.into_guard().0.at(Reported::CommitUnknown));
    CommitFailed::Unknown(Unsure { saga: submission.id, lock, token, error })
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("held", &self.held)
            .field("saga", &self.submission.id)
            .finish_non_exhaustive()
    }
}
