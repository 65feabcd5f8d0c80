//! What an error of PostgreSQL means for a store.

use amends_store::{Error, Kind};
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What a call was to do: a read that got no answer changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// It changes nothing, or nothing that was not yet committed.
    Reads,
    /// It commits by itself.
    Writes,
}

/// As the callers of a store are told.
pub(crate) fn store_error(error: &tokio_postgres::Error, call: Call) -> Error {
    match error.as_db_error() {
        Some(error) if is_answer(error) => said(error),
        // The server ended the session: whether before or after what it was asked, it does not say.
        Some(error) => match call {
            Call::Reads => said(error),
            Call::Writes => lost(&error.to_string()),
        },
        None => match (crate::tls::fault(error), call) {
            (Some(fault), _) => Error::new(Kind::Unwritable, format!("PostgreSQL cannot be used: {fault}")),
            (None, Call::Reads) => unreachable(&chain(error)),
            (None, Call::Writes) => lost(&chain(error)),
        },
    }
}

/// Whether an error of the server is its answer: the statement was not carried out. Others come with the end of a session.
pub(crate) fn is_answer(error: &DbError) -> bool {
    !matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None)
}

/// Whether the whole transaction has to be tried again: somebody else was quicker, and it changed nothing.
pub(crate) fn is_race(error: &tokio_postgres::Error) -> bool {
    let races =
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION];
    error.code().is_some_and(|code| races.contains(code))
}

/// An answer that was lost.
pub(crate) fn lost(why: &str) -> Error {
    let message = format!("the answer of PostgreSQL was lost, it may or may not have committed: {why}");
    Error::new(Kind::Indeterminate, message)
}

/// No connection.
pub(crate) fn unreachable(why: &str) -> Error {
    let message = format!(
        "PostgreSQL cannot be reached: {why}; see whether it runs, and the address in the store's URL"
    );
    Error::new(Kind::Unavailable, message)
}

/// A value that is not what the tables promise.
pub(crate) fn unreadable(what: &str) -> Error {
    let message = format!(
        "the schema amends holds {what}; look whether something else writes to its tables, or restore a backup"
    );
    Error::new(Kind::Corrupt, message)
}

fn said(error: &DbError) -> Error {
    let code = error.code();
    let is = |codes: &[SqlState]| codes.contains(code);
    let class = code.code().get(..2).unwrap_or_default();
    let (kind, remedy) = if is(&[SqlState::DISK_FULL]) {
        (Kind::Unwritable, "its disk is full: free space there, then the store goes on by itself")
    } else if is(&[SqlState::READ_ONLY_SQL_TRANSACTION]) {
        let remedy = "it takes no writes: it is a replica, or default_transaction_read_only is on; name the primary in the store's URL";
        (Kind::Unwritable, remedy)
    } else if is(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
        (Kind::Unwritable, "give the user all rights on the schema amends and its tables")
    } else if class == "28" {
        (Kind::Unwritable, "correct user and password in the store's URL, or pg_hba.conf")
    } else if is(&[SqlState::INVALID_CATALOG_NAME]) {
        (Kind::Refused, "make the database, or correct its name in the store's URL")
    } else if class == "58" {
        (Kind::Unwritable, "its disk fails: see the server's log")
    } else if class == "XX" || class == "42" || class == "3F" || class == "22" || class == "23" {
        let remedy =
            "its tables are damaged or were changed: see the server's log, and restore a backup if need be";
        (Kind::Corrupt, remedy)
    } else {
        // Starting up, too many connections, out of memory, a lock or a statement that took too long.
        (Kind::Unavailable, "try again; see the server's log if it stays so")
    };
    Error::new(kind, format!("PostgreSQL says: {} ({}): {remedy}", error.message(), code.code()))
}

/// What went wrong and why: the client's own words do not include the cause.
fn chain(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
