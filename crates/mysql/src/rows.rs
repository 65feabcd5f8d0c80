//! Rows and numbers, as the server gives them: in the text protocol all values are texts.

use std::str::FromStr;

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Row};
use mysql_async::{Row as Found, Value};

use crate::error::unreadable;

/// Milliseconds since 1970 on the server's clock, which leases and due times are measured on, as of the statement's beginning.
macro_rules! now_ms {
    () => {
        "CAST(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED)"
    };
}
pub(crate) use now_ms;

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
    let owner = text_opt(from, 18)?.zip(parse_opt(from, 19)?);
    Ok(Row {
        rowid: number(from, 0)?,
        id: saga_id(from, 1)?,
        saga: text(from, 2)?,
        definition_version: number(from, 3)?,
        digest: text(from, 4)?,
        status: text(from, 5)?,
        business_state: text(from, 6)?,
        seq: number(from, 7)?,
        step: text_opt(from, 8)?,
        operation: text_opt(from, 9)?,
        error_class: text_opt(from, 10)?,
        reason: text_opt(from, 11)?,
        contradictions: u32::try_from(number(from, 12)?).map_err(|_| unreadable("a count out of range"))?,
        overdue: number(from, 13)? != 0,
        created_at: time(from, 14)?,
        updated_at: time(from, 15)?,
        ended_at: time_opt(from, 16)?,
        due_at: time_opt(from, 17)?,
        owner,
    })
}

/// Reads (rowid, id).
pub(crate) fn due(from: &Found) -> Result<Due, Error> {
    Ok(Due { rowid: number(from, 0)?, id: saga_id(from, 1)? })
}

/// Reads a number that is never negative, and never NULL.
pub(crate) fn number(from: &Found, column: usize) -> Result<u64, Error> {
    parse_opt(from, column)?.ok_or_else(null)
}

/// Reads a number that is never negative.
pub(crate) fn number_opt(from: &Found, column: usize) -> Result<Option<u64>, Error> {
    parse_opt(from, column)
}

/// Reads a time.
pub(crate) fn time(from: &Found, column: usize) -> Result<Time, Error> {
    time_opt(from, column)?.ok_or_else(null)
}

/// Reads a time that may be NULL.
pub(crate) fn time_opt(from: &Found, column: usize) -> Result<Option<Time>, Error> {
    Ok(parse_opt(from, column)?.map(Time))
}

/// Reads a text.
pub(crate) fn text(from: &Found, column: usize) -> Result<String, Error> {
    text_opt(from, column)?.ok_or_else(null)
}

/// Reads a text that may be NULL.
pub(crate) fn text_opt(from: &Found, column: usize) -> Result<Option<String>, Error> {
    let bytes = bytes_opt(from, column)?;
    let text = bytes.map(|bytes| String::from_utf8(bytes.to_vec())).transpose();
    text.map_err(|_| unreadable("a text that is not UTF-8"))
}

/// Reads bytes.
pub(crate) fn bytes(from: &Found, column: usize) -> Result<&[u8], Error> {
    bytes_opt(from, column)?.ok_or_else(null)
}

/// Reads bytes that may be NULL.
pub(crate) fn bytes_opt(from: &Found, column: usize) -> Result<Option<&[u8]>, Error> {
    match from.as_ref(column) {
        Some(Value::NULL) => Ok(None),
        Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
        Some(_) | None => Err(unreadable("a value of the wrong type")),
    }
}

fn parse_opt<T: FromStr>(from: &Found, column: usize) -> Result<Option<T>, Error> {
    let Some(bytes) = bytes_opt(from, column)? else { return Ok(None) };
    let value = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    value.map(Some).ok_or_else(|| unreadable("a number out of range"))
}

fn saga_id(from: &Found, column: usize) -> Result<SagaId, Error> {
    SagaId::new(text(from, column)?).map_err(|e| unreadable(&format!("an id that is none ({e})")))
}

fn null() -> Error {
    unreadable("nothing where a value has to be")
}

/// A limit as a statement has it.
pub(crate) fn limit(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
