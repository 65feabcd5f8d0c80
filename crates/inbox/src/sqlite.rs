//! The inbox in SQLite, in transactions of `rusqlite`.
//!
//! Open the transaction with [`Immediate`](rusqlite::TransactionBehavior::Immediate), and set a
//! [busy time-out](rusqlite::Connection::busy_timeout): writers take turns then. A deferred one works as long as nothing was read before.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, Transaction, named_params};

use crate::desk::{Desk, Taking};
use crate::record::{Columns, Record, Settled};
use crate::sql::statement;
use crate::{Action, Answer, Begun, Compensation, Error, Found, Keep, Key, Outcome, Ticket, flow};

/// All statements, as they are in the file: for your own migrations, and for other languages.
pub const SQL: &str = include_str!("../sql/sqlite.sql");

const TABLE: &str = statement(SQL, "table");
const INDEX: &str = statement(SQL, "index");
const TAKE: &str = statement(SQL, "take");
const SEAL: &str = statement(SQL, "seal");
const READ: &str = statement(SQL, "read");
const SETTLE: &str = statement(SQL, "settle");
const UNDONE: &str = statement(SQL, "undone");
const QUERY: &str = statement(SQL, "query");
const FORGET: &str = statement(SQL, "forget");

/// Makes the table `amends_inbox` and its index if they are missing. A second call changes nothing.
///
/// # Errors
/// If the database refuses.
pub fn install(connection: &Connection) -> Result<(), Error> {
    for sql in [TABLE, INDEX] {
        connection.execute(sql, [])?;
    }
    Ok(())
}

/// Begins an action in the caller's transaction, or gives the answer of the first call under its key. Commit what it answers, a refusal too; roll
/// back (drop the transaction) upon an error.
///
/// If this call is the first, carry it out in this transaction and [`settle`] it; an effect must not commit or roll back.
///
/// # Errors
/// See [`Error`].
pub fn action(tx: &Transaction<'_>, action: &Action) -> Result<Begun, Error> {
    at_once(flow::action(&mut SqliteDesk(tx), action))
}

/// Begins to undo an action in the caller's transaction, or gives the answer. Commit what it answers; roll back upon an error.
///
/// It is [`Begun::First`] only if the action was carried out and is not undone yet. An action that never ran gets a tombstone: it never will.
///
/// # Errors
/// See [`Error`].
pub fn compensation(tx: &Transaction<'_>, compensation: &Compensation) -> Result<Begun, Error> {
    at_once(flow::compensation(&mut SqliteDesk(tx), compensation))
}

/// Keeps what an effect came to, in the transaction that began it, and gives the answer to send once that is committed. What the effect wrote before it
/// was refused ([`Outcome::Rejected`]) is undone.
///
/// # Errors
/// See [`Error`].
pub fn settle(tx: &Transaction<'_>, ticket: Ticket, outcome: Outcome) -> Result<Answer, Error> {
    at_once(flow::settle(&mut SqliteDesk(tx), ticket, outcome))
}

/// What became of a key. It changes nothing.
///
/// # Errors
/// If the database refuses, or the record cannot be read.
pub fn query(connection: &Connection, key: &Key) -> Result<Found, Error> {
    match record(connection, QUERY, key)? {
        Some(record) => record.found(),
        None => Ok(Found::NeverSeen),
    }
}

/// Removes up to `limit` records whose time to be kept is over by the machine's clock, and tells how many those were. Call it again while it finds as many as it may.
///
/// # Errors
/// If the database refuses.
pub fn forget(connection: &Connection, limit: u16) -> Result<u64, Error> {
    Ok(connection.execute(FORGET, named_params! { ":limit": limit })? as u64)
}

/// Another connection writes, or wrote since this transaction first read.
pub(crate) fn is_retryable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Runs the rules, which are written for databases that one waits for, on one that is never waited for.
fn at_once<T>(rules: impl Future<Output = T>) -> T {
    match pin!(rules).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("nothing in SQLite is waited for"),
    }
}

struct SqliteDesk<'t>(&'t Connection);

impl Desk for SqliteDesk<'_> {
    async fn take(&mut self, row: &Taking<'_>) -> Result<bool, Error> {
        let taken = self.0.prepare_cached(TAKE)?.execute(named_params! {
            ":key": row.key.as_str(),
            ":operation": row.operation.as_str(),
            ":action_key": row.action_key.map(Key::as_str),
            ":request_hash": row.request.as_bytes(),
            ":keep_s": row.keep.as_secs(),
        })?;
        Ok(taken == 1)
    }

    async fn seal(&mut self, action_key: &Key, keep: Keep) -> Result<(), Error> {
        let seal = named_params! { ":key": action_key.as_str(), ":keep_s": keep.as_secs() };
        self.0.prepare_cached(SEAL)?.execute(seal)?;
        Ok(())
    }

    async fn read(&mut self, key: &Key) -> Result<Option<Record>, Error> {
        record(self.0, READ, key)
    }

    async fn settle(&mut self, key: &Key, settled: &Settled) -> Result<bool, Error> {
        let settle = named_params! {
            ":key": key.as_str(),
            ":state": settled.state.as_str(),
            ":answer": settled.text,
        };
        Ok(self.0.prepare_cached(SETTLE)?.execute(settle)? == 1)
    }

    async fn undone(&mut self, action_key: &Key, by: &Key) -> Result<bool, Error> {
        let undone = named_params! { ":key": action_key.as_str(), ":undone_by": by.as_str() };
        Ok(self.0.prepare_cached(UNDONE)?.execute(undone)? == 1)
    }

    async fn mark(&mut self) -> Result<(), Error> {
        self.0.execute("SAVEPOINT amends_effect", [])?;
        Ok(())
    }

    async fn back_to_mark(&mut self) -> Result<(), Error> {
        self.0.execute("ROLLBACK TO SAVEPOINT amends_effect", [])?;
        Ok(())
    }
}

fn record(connection: &Connection, sql: &str, key: &Key) -> Result<Option<Record>, Error> {
    let row = connection.prepare_cached(sql)?.query_row(named_params! { ":key": key.as_str() }, columns);
    row.optional()?.map(|columns| Record::read(key, columns)).transpose()
}

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok(Columns {
        operation: row.get("operation")?,
        state: row.get("state")?,
        action_key: row.get("action_key")?,
        request_hash: row.get("request_hash")?,
        answer: row.get("answer")?,
        undone_by: row.get("undone_by")?,
    })
}
