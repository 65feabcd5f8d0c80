//! The statements of an inbox, one method each, within one open transaction.

use crate::record::{Operation, Record, Settled};
use crate::{Error, Keep, Key, RequestHash};

#[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
compile_error!("an inbox is in a database: turn on the feature mysql, postgres or sqlite");

/// The row that a call takes.
#[derive(Debug)]
pub(crate) struct Taking<'a> {
    pub(crate) key: &'a Key,
    pub(crate) operation: Operation,
    /// Of a compensation.
    pub(crate) action_key: Option<&'a Key>,
    pub(crate) request: &'a RequestHash,
    pub(crate) keep: Keep,
}

/// A database, seen through a transaction.
pub(crate) trait Desk {
    /// Inserts the row of a call, and tells whether this call is the first. Waits for any other transaction that has inserted it and is not over.
    async fn take(&mut self, row: &Taking<'_>) -> Result<bool, Error>;

    /// Makes a tombstone of an action's key if nothing is there, else prolongs what is; in either case locks the row until this transaction is over.
    async fn seal(&mut self, action_key: &Key, keep: Keep) -> Result<(), Error>;

    /// Reads a row that this transaction inserted or met, in its newest state.
    async fn read(&mut self, key: &Key) -> Result<Option<Record>, Error>;

    /// Stores what this transaction's own row came to; tells whether the row was there.
    async fn settle(&mut self, key: &Key, settled: &Settled) -> Result<bool, Error>;

    /// Notes by which compensation an action was undone; tells whether it was there, done and not undone yet.
    async fn undone(&mut self, action_key: &Key, by: &Key) -> Result<bool, Error>;

    /// Marks the point to which a refused effect is rolled back.
    async fn mark(&mut self) -> Result<(), Error>;

    /// Rolls back to the mark.
    async fn back_to_mark(&mut self) -> Result<(), Error>;
}
