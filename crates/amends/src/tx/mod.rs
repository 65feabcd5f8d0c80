//! Sagas that begin inside a transaction of the caller's own.

mod error;
mod pending;
mod port;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "sqlx-mysql")]
mod sqlx_mysql;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
mod submission;

pub use error::{CommitFailed, NotSubmitted, SubmitError, Unsure};
pub use pending::Pending;
pub use port::Transaction;
pub use submission::Submission;

use serde::Serialize;

use crate::Saga;

/// Submits a saga inside a transaction of the caller's: it begins if, and when, that is committed. Rolled back, it never was; committed, it is durable,
/// and an engine on this database finds it, also after a crash.
///
/// An engine takes the highest version of the definition that is registered when it finds it. The same id again, with the same input, is no error, and no second saga. Until an engine has taken its claims it is `accepting`
/// (semantics, rule 13).
///
/// Answers as the transaction's driver does: rusqlite at once, sqlx with a future.
///
/// # Errors
/// [`SubmitError`]. The transaction is as it was, or, after an error of a PostgreSQL server, can only be rolled back.
pub fn submit_in<'a, T: Transaction, I: Serialize>(
    tx: &'a mut T,
    saga: &Saga<I>,
    id: impl Into<String>,
    input: &I,
) -> T::Answer<'a, Result<(), SubmitError>> {
    tx.submit(Submission::new(saga, id.into(), input))
}
