//! Rows and numbers, as PostgreSQL keeps them.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Kind, Row};
use tokio_postgres::Row as Found;
use tokio_postgres::types::FromSql;

use crate::error::unreadable;

/// The columns that [`row`] reads, in its order, of the table `s`.
macro_rules! columns {
    () => {
        "s.rowid, s.id, s.saga, s.definition_version, s.digest, s.status, s.business_state, s.seq, s.step, s.operation, s.error_class, \
         s.reason, s.contradictions, s.overdue, s.created_at, s.updated_at, s.ended_at, s.due_at, s.owner_node, s.owner_epoch"
    };
}
pub(crate) use columns;

/// How many columns [`row`] reads.
pub(crate) const COLUMN_COUNT: usize = 20;

/// Reads a list row.
pub(crate) fn row(from: &Found) -> Result<Row, Error> {
    let owner = match (get::<Option<String>>(from, 18)?, get::<Option<i64>>(from, 19)?) {
        (Some(node), Some(epoch)) => Some((node, unsigned(epoch)?)),
        (None, _) | (_, None) => None,
    };
    Ok(Row {
        rowid: number(from, 0)?,
        id: saga_id(from, 1)?,
        saga: get(from, 2)?,
        definition_version: number(from, 3)?,
        digest: get(from, 4)?,
        status: get(from, 5)?,
        business_state: get(from, 6)?,
        seq: number(from, 7)?,
        step: get(from, 8)?,
        operation: get(from, 9)?,
        error_class: get(from, 10)?,
        reason: get(from, 11)?,
        contradictions: u32::try_from(get::<i64>(from, 12)?)
            .map_err(|_| unreadable("a count out of range"))?,
        overdue: get(from, 13)?,
        created_at: Time(get(from, 14)?),
        updated_at: Time(get(from, 15)?),
        ended_at: get::<Option<i64>>(from, 16)?.map(Time),
        due_at: get::<Option<i64>>(from, 17)?.map(Time),
        owner,
    })
}

/// Reads (rowid, id).
pub(crate) fn due(from: &Found) -> Result<Due, Error> {
    Ok(Due { rowid: number(from, 0)?, id: saga_id(from, 1)? })
}

/// Reads a column.
pub(crate) fn get<'a, T: FromSql<'a>>(from: &'a Found, column: usize) -> Result<T, Error> {
    from.try_get(column).map_err(|e| unreadable(&format!("a value of the wrong type ({e})")))
}

/// Reads a number that is never negative.
pub(crate) fn number(from: &Found, column: usize) -> Result<u64, Error> {
    unsigned(get(from, column)?)
}

fn saga_id(from: &Found, column: usize) -> Result<SagaId, Error> {
    let text: String = get(from, column)?;
    SagaId::new(text).map_err(|e| unreadable(&format!("an id that is none ({e})")))
}

fn unsigned(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| unreadable("a number below 0"))
}

/// A number as PostgreSQL keeps it, which has one bit less.
pub(crate) fn int(value: u64) -> Result<i64, Error> {
    i64::try_from(value)
        .map_err(|_| Error::new(Kind::Refused, format!("{value} is more than PostgreSQL can hold")))
}

/// A number to look for: one that PostgreSQL cannot hold is nowhere in it.
pub(crate) fn sought(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A limit as PostgreSQL keeps it.
pub(crate) fn limit(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A text as PostgreSQL keeps it: the one character that it cannot hold stands for nothing that people read.
pub(crate) fn text(value: &str) -> String {
    value.replace('\0', "\u{fffd}")
}
