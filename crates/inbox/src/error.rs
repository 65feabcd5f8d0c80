//! What can go wrong, and what to do then.

/// Any error of the caller's own.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why nothing was answered. Roll the transaction back, whatever it was: nothing of it is to stay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed, or refused a statement.
    #[error("the database failed: {0}")]
    Database(#[source] BoxError),
    /// The caller's own code failed. It is no refusal: nothing is kept, and the next call tries again.
    #[error("it could not be carried out: {0}")]
    Effect(#[source] BoxError),
    /// The key was used with another request, for another operation, or for undoing another action. Nothing ran.
    #[error(
        "the key {key} was first used with another request: a key belongs to one operation and what it was first sent with"
    )]
    Different {
        /// The key.
        key: String,
    },
    /// A record was committed before its operation was over, which only code beside this crate can do: whether its effect is there is not known.
    #[error(
        "the record of {key} was committed unfinished: find out what it did, then set its state and answer by hand"
    )]
    Unfinished {
        /// The key.
        key: String,
    },
    /// The record is not what it was a statement ago: it was removed, or the effect ended the transaction it ran in.
    #[error(
        "the record of {key} is gone: an effect must not commit, roll back, or go on after an error that ended its transaction"
    )]
    Gone {
        /// The key.
        key: String,
    },
    /// What is stored under the key cannot be read.
    #[error("the record of {key} cannot be read: {what}")]
    Corrupt {
        /// The key.
        key: String,
        /// What is wrong with it.
        what: String,
    },
    /// The fact cannot be an answer: it is too long, or would be read as something else.
    #[error("the effect's answer cannot be kept: {0}")]
    Fact(String),
}

impl Error {
    /// Whether the database ended the transaction for reasons of its own (deadlock, serialization failure, a lock that did not come in time), so that the same again, in a
    /// new transaction, may well succeed. The whole transaction is to be repeated, never a statement: MySQL keeps what went before.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Database(source) | Self::Effect(source) => is_retryable(source.as_ref()),
            Self::Different { .. }
            | Self::Unfinished { .. }
            | Self::Gone { .. }
            | Self::Corrupt { .. }
            | Self::Fact(_) => false,
        }
    }

    /// The HTTP status to answer once the transaction is rolled back: 425 (this attempt was not executed) for what is worth trying again, 412 (a configuration
    /// fault) for a key that was used otherwise, else 500 (unknown: the engine asks).
    ///
    /// A key that was used otherwise is never answered 422: that would say that nothing was done under it.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Different { .. } => 412,
            Self::Database(_) | Self::Effect(_) if self.is_retryable() => 425,
            Self::Database(_)
            | Self::Effect(_)
            | Self::Unfinished { .. }
            | Self::Gone { .. }
            | Self::Corrupt { .. }
            | Self::Fact(_) => 500,
        }
    }
}

impl From<BoxError> for Error {
    fn from(e: BoxError) -> Self {
        Self::Effect(e)
    }
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl From<sqlx::Error> for Error {
    fn from(e: sqlx::Error) -> Self {
        Self::Database(e.into())
    }
}

#[cfg(feature = "sqlite")]
impl From<rusqlite::Error> for Error {
    fn from(e: rusqlite::Error) -> Self {
        Self::Database(e.into())
    }
}

/// Whether this error, or one that it comes from, is a driver's and retryable.
fn is_retryable(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        #[cfg(any(feature = "mysql", feature = "postgres"))]
        if let Some(sqlx::Error::Database(e)) = error.downcast_ref::<sqlx::Error>() {
            return is_retryable_in_database(e.as_ref());
        }
        #[cfg(feature = "sqlite")]
        if let Some(e) = error.downcast_ref::<rusqlite::Error>() {
            return crate::sqlite::is_retryable(e);
        }
        next = error.source();
    }
    false
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
fn is_retryable_in_database(error: &dyn sqlx::error::DatabaseError) -> bool {
    #[cfg(feature = "postgres")]
    if let Some(e) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        return crate::postgres::is_retryable(e);
    }
    #[cfg(feature = "mysql")]
    if let Some(e) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return crate::mysql::is_retryable(e);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_surely_did_nothing_is_answered_as_not_executed() {
        let key = || "k".to_owned();
        for (error, status) in [
            (Error::Effect("no network".into()), 500),
            (Error::Different { key: key() }, 412),
            (Error::Unfinished { key: key() }, 500),
            (Error::Gone { key: key() }, 500),
            (Error::Corrupt { key: key(), what: "x".into() }, 500),
            (Error::Fact("x".into()), 500),
            (Error::from(sqlx::Error::PoolTimedOut), 500),
        ] {
            assert_eq!((error.status(), error.is_retryable()), (status, false), "{error}");
        }
    }
}
