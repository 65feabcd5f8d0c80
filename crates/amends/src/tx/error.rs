//! What can go wrong in, and after, a transaction of the caller's.

use std::error::Error;
use std::fmt;

use amends_core::SagaId;
use amends_store::locks::LeaseOver;

use crate::locks::Held;

/// Why a saga was not submitted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The id, or the input, does not fit the definition.
    #[error("{0}")]
    Unfit(String),
    /// The id names a saga of another definition, or with another input, or a submission that was refused.
    #[error("{id} was not submitted: {reason}")]
    Refused {
        /// The id.
        id: SagaId,
        /// The database's words.
        reason: String,
    },
    /// The saga would not cover the lock.
    #[error(
        "{saga} does not cover the lock {lock}: neither its id nor one of its claims is that name; add it to the claims of its definition"
    )]
    NotCovered {
        /// The saga.
        saga: SagaId,
        /// The lock.
        lock: String,
    },
    /// The transaction is within another one, so that its commit would make nothing durable.
    #[error(
        "the transaction is a savepoint of another one, whose commit makes nothing durable: hand over the outermost one"
    )]
    Nested,
    /// The lease is over, as far as this process knows.
    #[error(transparent)]
    LeaseOver(#[from] LeaseOver),
    /// The database does not have the lock under this token.
    #[error(
        "the lock is not held under token {token} in this database: it was taken by somebody else, or is kept elsewhere (see Held::fenced_by_resource)"
    )]
    LockLost {
        /// The token.
        token: u64,
    },
    /// The database.
    #[error("the database refused the submission: {0}")]
    Database(#[source] Box<dyn Error + Send + Sync>),
}

/// A saga that was not submitted in a transaction, which has been rolled back: there is nothing to recover.
#[derive(Debug)]
pub struct NotSubmitted {
    /// The lock: to be abandoned, or used for another try.
    pub held: Held,
    /// Why.
    pub error: SubmitError,
}

/// A transaction that was not committed, as far as anybody can tell.
#[derive(Debug)]
pub enum CommitFailed {
    /// It was rolled back: there is nothing to recover.
    RolledBack(NotSubmitted),
    /// The answer was lost: it may be committed or not. The lock is neither released nor abandoned: its lease ends by itself.
    Unknown(Unsure),
}

/// A transaction of which nobody knows whether it was committed. Whether the saga is there tells: look for it once the database answers again.
#[derive(Debug)]
pub struct Unsure {
    /// The saga that was submitted in it.
    pub saga: SagaId,
    /// The lock under which that was done.
    pub lock: String,
    /// Its fencing token.
    pub token: u64,
    /// What became of the commit.
    pub error: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for NotSubmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing was committed: {}", self.error)
    }
}

impl Error for NotSubmitted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl fmt::Display for CommitFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack(not) => not.fmt(f),
            Self::Unknown(unsure) => unsure.fmt(f),
        }
    }
}

impl Error for CommitFailed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::RolledBack(not) => not.source(),
            Self::Unknown(unsure) => unsure.source(),
        }
    }
}

impl fmt::Display for Unsure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "whether {} was committed is not known, so that the lock {} stays until its lease has passed: {}",
            self.saga, self.lock, self.error
        )
    }
}

impl Error for Unsure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.error.as_ref())
    }
}
