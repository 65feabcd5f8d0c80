//! The inbox in PostgreSQL, in transactions of `sqlx`.
//!
//! Any isolation level will do. Under REPEATABLE READ and SERIALIZABLE a call that waited for another ends with a serialization failure and is to be repeated
//! ([`Attempts`](crate::Attempts)); under READ COMMITTED it goes on.

use sqlx::postgres::{PgConnection, PgDatabaseError, PgPool, PgRow};
use sqlx::{Executor as _, Postgres, Row as _, Transaction};

use crate::desk::{Desk, Taking};
use crate::record::{Columns, Record, Settled};
use crate::sql::statement;
use crate::{Action, Answer, Begun, Compensation, Error, Found, Keep, Key, Outcome, Ticket, flow};

/// All statements, as they are in the file: for your own migrations, and for other languages.
pub const SQL: &str = include_str!("../sql/postgres.sql");

const TABLE: &str = statement(SQL, "table");
const INDEX: &str = statement(SQL, "index");
const TAKE: &str = statement(SQL, "take");
const SEAL: &str = statement(SQL, "seal");
const READ: &str = statement(SQL, "read");
const SETTLE: &str = statement(SQL, "settle");
const UNDONE: &str = statement(SQL, "undone");
const QUERY: &str = statement(SQL, "query");
const FORGET: &str = statement(SQL, "forget");

/// Two sessions that make the same table at once would fail, so they take turns under this number.
const INSTALL_LOCK: &str = "SELECT pg_advisory_xact_lock(4276215469)";

/// Makes the table `amends_inbox` and its index in the first schema of the search path, if they are missing. A second call, also at the same time, changes nothing.
///
/// # Errors
/// If the database refuses or cannot be reached.
pub async fn install(pool: &PgPool) -> Result<(), Error> {
    let mut tx = pool.begin().await?;
    for sql in [INSTALL_LOCK, TABLE, INDEX] {
        tx.execute(sql).await?;
    }
    Ok(tx.commit().await?)
}

/// Begins an action in the caller's transaction, or gives the answer of the first call under its key. Commit what it answers, a refusal too; roll
/// back upon an error.
///
/// A call under a key that another transaction works on waits until that is over. If this one is the first, carry it out in this transaction
/// and [`settle`] it; an effect is free to read and write, but must not commit or roll back.
///
/// # Errors
/// See [`Error`]. Those that are [retryable](Error::is_retryable) ask for a new transaction: [`Attempts`](crate::Attempts).
pub async fn action(tx: &mut Transaction<'_, Postgres>, action: &Action) -> Result<Begun, Error> {
    flow::action(&mut PgDesk(tx), action).await
}

/// Begins to undo an action in the caller's transaction, or gives the answer. Commit what it answers; roll back upon an error.
///
/// It is [`Begun::First`] only if the action was carried out and is not undone yet. An action that never ran gets a tombstone: it never will.
///
/// # Errors
/// As of [`action`].
pub async fn compensation(
    tx: &mut Transaction<'_, Postgres>,
    compensation: &Compensation,
) -> Result<Begun, Error> {
    flow::compensation(&mut PgDesk(tx), compensation).await
}

/// Keeps what an effect came to, in the transaction that began it, and gives the answer to send once that is committed. What the effect wrote before it
/// was refused ([`Outcome::Rejected`]) is undone.
///
/// # Errors
/// See [`Error`].
pub async fn settle(
    tx: &mut Transaction<'_, Postgres>,
    ticket: Ticket,
    outcome: Outcome,
) -> Result<Answer, Error> {
    flow::settle(&mut PgDesk(tx), ticket, outcome).await
}

/// What became of a key. It waits for nobody, and changes nothing.
///
/// # Errors
/// If the database cannot be reached, or the record cannot be read.
pub async fn query(connection: &mut PgConnection, key: &Key) -> Result<Found, Error> {
    match record(connection, QUERY, key).await? {
        Some(record) => record.found(),
        None => Ok(Found::NeverSeen),
    }
}

/// Removes up to `limit` records whose time to be kept is over by the database's clock, and tells how many those were. Call it again while it finds as many
/// as it may: each call is a transaction of its own and waits for nobody.
///
/// # Errors
/// If the database refuses or cannot be reached.
pub async fn forget(pool: &PgPool, limit: u16) -> Result<u64, Error> {
    Ok(sqlx::query(FORGET).bind(i64::from(limit)).execute(pool).await?.rows_affected())
}

/// Serialization failure, deadlock, and a lock that did not come in time.
pub(crate) fn is_retryable(error: &PgDatabaseError) -> bool {
    ["40001", "40P01", "55P03"].contains(&error.code())
}

struct PgDesk<'t, 'c>(&'t mut Transaction<'c, Postgres>);

impl Desk for PgDesk<'_, '_> {
    async fn take(&mut self, row: &Taking<'_>) -> Result<bool, Error> {
        let taking = sqlx::query(TAKE)
            .bind(row.key.as_str())
            .bind(row.operation.as_str())
            .bind(row.action_key.map(Key::as_str))
            .bind(row.request.as_bytes())
            .bind(i64::from(row.keep.as_secs()));
        Ok(taking.execute(&mut **self.0).await?.rows_affected() == 1)
    }

    async fn seal(&mut self, action_key: &Key, keep: Keep) -> Result<(), Error> {
        let sealing = sqlx::query(SEAL).bind(action_key.as_str()).bind(i64::from(keep.as_secs()));
        sealing.execute(&mut **self.0).await?;
        Ok(())
    }

    async fn read(&mut self, key: &Key) -> Result<Option<Record>, Error> {
        record(self.0, READ, key).await
    }

    async fn settle(&mut self, key: &Key, settled: &Settled) -> Result<bool, Error> {
        let settling =
            sqlx::query(SETTLE).bind(key.as_str()).bind(settled.state.as_str()).bind(&settled.text);
        Ok(settling.execute(&mut **self.0).await?.rows_affected() == 1)
    }

    async fn undone(&mut self, action_key: &Key, by: &Key) -> Result<bool, Error> {
        let undone = sqlx::query(UNDONE).bind(action_key.as_str()).bind(by.as_str());
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
    connection: &mut PgConnection,
    sql: &'static str,
    key: &Key,
) -> Result<Option<Record>, Error> {
    let row = sqlx::query(sql).bind(key.as_str()).fetch_optional(connection).await?;
    row.map(|row| Record::read(key, columns(&row)?)).transpose()
}

fn columns(row: &PgRow) -> Result<Columns, sqlx::Error> {
    Ok(Columns {
        operation: row.try_get("operation")?,
        state: row.try_get("state")?,
        action_key: row.try_get("action_key")?,
        request_hash: row.try_get("request_hash")?,
        answer: row.try_get("answer")?,
        undone_by: row.try_get("undone_by")?,
    })
}
