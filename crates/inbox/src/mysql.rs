//! The inbox in MySQL or MariaDB, in transactions of `sqlx`.
//!
//! READ COMMITTED and REPEATABLE READ will do; READ COMMITTED waits less. Three calls of one key of which the first one rolls back can end in a
//! deadlock at either level (each of the two that waited locks the gap that the other one needs), which the server resolves by ending
//! one: repeat the whole transaction ([`Attempts`](crate::Attempts)).

use sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlPool, MySqlRow};
use sqlx::{Executor as _, MySql, Row as _, Transaction};

use crate::desk::{Desk, Taking};
use crate::record::{Columns, Record, Settled};
use crate::sql::statement;
use crate::{Action, Answer, Begun, Compensation, Error, Found, Keep, Key, Outcome, Ticket, flow};

/// All statements, as they are in the file: for your own migrations, and for other languages.
pub const SQL: &str = include_str!("../sql/mysql.sql");

const TABLE: &str = statement(SQL, "table");
const TAKE: &str = statement(SQL, "take");
const SEAL: &str = statement(SQL, "seal");
const READ: &str = statement(SQL, "read");
const SETTLE: &str = statement(SQL, "settle");
const UNDONE: &str = statement(SQL, "undone");
const QUERY: &str = statement(SQL, "query");
const DUE: &str = statement(SQL, "due");
const FORGET: &str = statement(SQL, "forget");

/// Makes the table `amends_inbox` if it is missing. A second call, also at the same time, changes nothing. Making it ends a transaction that is open on the same connection.
///
/// # Errors
/// If the database refuses or cannot be reached.
pub async fn install(pool: &MySqlPool) -> Result<(), Error> {
    pool.execute(TABLE).await?;
    Ok(())
}

/// Begins an action in the caller's transaction, or gives the answer of the first call under its key. Commit what it answers, a refusal too; roll
/// back upon an error.
///
/// A call under a key that another transaction works on waits until that is over. If this one is the first, carry it out in this transaction
/// and [`settle`] it; an effect is free to read and write, but must not commit or roll back, nor go on after a deadlock: the
/// transaction is over then, and what follows would be committed statement by statement.
///
/// # Errors
/// See [`Error`]. Those that are [retryable](Error::is_retryable) ask for a new transaction: [`Attempts`](crate::Attempts).
pub async fn action(tx: &mut Transaction<'_, MySql>, action: &Action) -> Result<Begun, Error> {
    flow::action(&mut MySqlDesk(tx), action).await
}

/// Begins to undo an action in the caller's transaction, or gives the answer. Commit what it answers; roll back upon an error.
///
/// It is [`Begun::First`] only if the action was carried out and is not undone yet. An action that never ran gets a tombstone: it never will.
///
/// # Errors
/// As of [`action`].
pub async fn compensation(
    tx: &mut Transaction<'_, MySql>,
    compensation: &Compensation,
) -> Result<Begun, Error> {
    flow::compensation(&mut MySqlDesk(tx), compensation).await
}

/// Keeps what an effect came to, in the transaction that began it, and gives the answer to send once that is committed. What the effect wrote before it
/// was refused ([`Outcome::Rejected`]) is undone.
///
/// # Errors
/// See [`Error`].
pub async fn settle(
    tx: &mut Transaction<'_, MySql>,
    ticket: Ticket,
    outcome: Outcome,
) -> Result<Answer, Error> {
    flow::settle(&mut MySqlDesk(tx), ticket, outcome).await
}

/// What became of a key. It waits for nobody, and changes nothing. In a transaction under REPEATABLE READ it tells what was so when that
/// first read anything: ask outside of one.
///
/// # Errors
/// If the database cannot be reached, or the record cannot be read.
pub async fn query(connection: &mut MySqlConnection, key: &Key) -> Result<Found, Error> {
    match record(connection, QUERY, key).await? {
        Some(record) => record.found(),
        None => Ok(Found::NeverSeen),
    }
}

/// Removes up to `limit` records whose time to be kept is over by the database's clock, and tells how many those were. Call it again while it finds as many as
/// it may. Each record is removed by its key in a transaction of its own, so that no gap is locked.
///
/// # Errors
/// If the database refuses or cannot be reached; what was removed by then stays removed.
pub async fn forget(pool: &MySqlPool, limit: u16) -> Result<u64, Error> {
    let mut forgotten = 0;
    for row in sqlx::query(DUE).bind(i64::from(limit)).fetch_all(pool).await? {
        let key: Vec<u8> = row.try_get("operation_key")?;
        forgotten += sqlx::query(FORGET).bind(key).execute(pool).await?.rows_affected();
    }
    Ok(forgotten)
}

/// Deadlock, a lock that did not come in time, a row that changed since it was read (MariaDB).
pub(crate) fn is_retryable(error: &MySqlDatabaseError) -> bool {
    [1213, 1205, 1020].contains(&error.number())
}

struct MySqlDesk<'t, 'c>(&'t mut Transaction<'c, MySql>);

impl Desk for MySqlDesk<'_, '_> {
    async fn take(&mut self, row: &Taking<'_>) -> Result<bool, Error> {
        let taking = sqlx::query(TAKE)
            .bind(row.key.as_str().as_bytes())
            .bind(row.operation.as_str())
            .bind(row.action_key.map(|key| key.as_str().as_bytes()))
            .bind(row.request.as_bytes())
            .bind(row.keep.as_secs());
        match taking.execute(&mut **self.0).await {
            Ok(_) => Ok(true),
            // The statement alone is undone; the transaction goes on, and holds the row that was met.
            Err(sqlx::Error::Database(e)) if e.is_unique_violation() => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    async fn seal(&mut self, action_key: &Key, keep: Keep) -> Result<(), Error> {
        let sealing = sqlx::query(SEAL).bind(action_key.as_str().as_bytes()).bind(keep.as_secs());
        sealing.execute(&mut **self.0).await?;
        Ok(())
    }

    async fn read(&mut self, key: &Key) -> Result<Option<Record>, Error> {
        record(self.0, READ, key).await
    }

    async fn settle(&mut self, key: &Key, settled: &Settled) -> Result<bool, Error> {
        let settling = sqlx::query(SETTLE)
            .bind(settled.state.as_str())
            .bind(&settled.text)
            .bind(key.as_str().as_bytes());
        Ok(settling.execute(&mut **self.0).await?.rows_affected() == 1)
    }

    async fn undone(&mut self, action_key: &Key, by: &Key) -> Result<bool, Error> {
        let undone = sqlx::query(UNDONE).bind(by.as_str().as_bytes()).bind(action_key.as_str().as_bytes());
        Ok(undone.execute(&mut **self.0).await?.rows_affected() == 1)
    }

    async fn mark(&mut self) -> Result<(), Error> {
        self.0.execute("SAVEPOINT amends_effect").await?;
        Ok(())
    }

    async fn back_to_mark(&mut self) -> Result<(), Error> {
        self.0.execute("ROLLBACK TO SAVEPOINT amends_effect").await?;
        Ok(())
    }
}

async fn record(
    connection: &mut MySqlConnection,
    sql: &'static str,
    key: &Key,
) -> Result<Option<Record>, Error> {
    let row = sqlx::query(sql).bind(key.as_str().as_bytes()).fetch_optional(connection).await?;
    row.map(|row| Record::read(key, columns(key, &row)?)).transpose()
}

fn columns(key: &Key, row: &MySqlRow) -> Result<Columns, Error> {
    // Keys are bytes to the database, so that no collation makes two of them equal.
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).map_err(|e| Error::Corrupt { key: key.to_string(), what: e.to_string() })
    };
    Ok(Columns {
        operation: row.try_get("operation")?,
        state: row.try_get("state")?,
        action_key: row.try_get::<Option<Vec<u8>>, _>("action_key")?.map(text).transpose()?,
        request_hash: row.try_get("request_hash")?,
        answer: row.try_get("answer")?,
        undone_by: row.try_get::<Option<Vec<u8>>, _>("undone_by")?.map(text).transpose()?,
    })
}
