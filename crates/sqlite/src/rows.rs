//! Rows and numbers, as SQLite keeps them.

use amends_core::{SagaId, Time};
use amends_store::{Due, Row};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Params};

/// The columns that [`row`] reads, in its order.
pub(crate) const COLUMNS: &str = "rowid, id, saga, definition_version, digest, status, business_state, seq, step, operation, \
     error_class, reason, contradictions, overdue, created_at, updated_at, ended_at, due_at, owner_node, owner_epoch";

/// Reads a list row.
pub(crate) fn row(from: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let owner: (Option<String>, Option<i64>) = (from.get(18)?, from.get(19)?);
    let owner = match owner {
        (Some(node), Some(epoch)) => Some((node, unsigned(19, epoch)?)),
        (None, _) | (_, None) => None,
    };
    Ok(Row {
        rowid: number(from, 0)?,
        id: saga_id(from, 1)?,
        saga: from.get(2)?,
        definition_version: number(from, 3)?,
        digest: from.get(4)?,
        status: from.get(5)?,
        business_state: from.get(6)?,
        seq: number(from, 7)?,
        step: from.get(8)?,
        operation: from.get(9)?,
        error_class: from.get(10)?,
        reason: from.get(11)?,
        contradictions: from.get(12)?,
        overdue: from.get(13)?,
        created_at: time(from, 14)?,
        updated_at: time(from, 15)?,
        ended_at: from.get::<_, Option<i64>>(16)?.map(Time),
        due_at: from.get::<_, Option<i64>>(17)?.map(Time),
        owner,
    })
}

/// Reads (rowid, id).
pub(crate) fn due(from: &rusqlite::Row<'_>) -> rusqlite::Result<Due> {
    Ok(Due { rowid: number(from, 0)?, id: saga_id(from, 1)? })
}

pub(crate) fn saga_id(from: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<SagaId> {
    let text: String = from.get(column)?;
    SagaId::new(text).map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}

/// Reads a number that is never negative.
pub(crate) fn number(from: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    unsigned(column, from.get(column)?)
}

pub(crate) fn time(from: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Time> {
    from.get(column).map(Time)
}

fn unsigned(column: usize, value: i64) -> rusqlite::Result<u64> {
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// A number as SQLite keeps it, which has one bit less.
pub(crate) fn int(value: u64) -> rusqlite::Result<i64> {
    i64::try_from(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

/// A number to look for: one that SQLite cannot hold is nowhere in it.
pub(crate) fn sought(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A limit as SQLite keeps it.
pub(crate) fn limit(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The saga's number, `None` if there is no such saga.
pub(crate) fn rowid(conn: &Connection, id: &SagaId) -> rusqlite::Result<Option<i64>> {
    one(conn, "SELECT rowid FROM saga WHERE id = ?1", [id.as_str()], |row| row.get(0))
}

/// The first row of a query, if there is one.
pub(crate) fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    conn.prepare_cached(sql)?.query_row(params, read).optional()
}

/// All rows of a query.
pub(crate) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    conn.prepare_cached(sql)?.query_map(params, read)?.collect()
}
