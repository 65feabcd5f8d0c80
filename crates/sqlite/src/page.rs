//! One page of a list, from one moment, looking at a bounded number of rows.
//!
//! Rows are found newest first in up to three kinds of source: all of them; those of one status that nobody owns; those in
//! flight. What they give is merged as far as each has looked.

use amends_core::Time;
use amends_store::{Cursor, ListFilter, Page, Row};
use rusqlite::{Connection, Params, params};

use crate::rows;

/// Rows that one read looks at in one source before it gives what it has: some tens of milliseconds.
const LOOKED_AT_MAX: usize = 20_000;

pub(crate) const ALL: &str = "WHERE rowid < ?1 ORDER BY rowid DESC";

pub(crate) const FREE: &str = "WHERE owner_epoch IS NULL AND status = ?2 AND rowid < ?1 ORDER BY rowid DESC";

// Sagas in flight are few, so that sorting them is nothing.
pub(crate) const IN_FLIGHT: &str =
    "INDEXED BY saga_owned WHERE owner_epoch IS NOT NULL AND status = ?2 AND rowid < ?1 ORDER BY rowid DESC";

/// What one source gave.
struct Found {
    rows: Vec<Row>,
    /// The last row looked at, if there may be others behind it.
    down_to: Option<u64>,
}

/// Up to `limit` rows after the cursor. `next` may be set although there are fewer: then it has looked at enough.
pub(crate) fn page(
    conn: &Connection,
    filter: &ListFilter,
    cursor: Option<Cursor>,
    limit: usize,
) -> rusqlite::Result<Page> {
    let before = cursor.map_or(i64::MAX, |Cursor(rowid)| rows::sought(rowid));
    let mut statuses = filter.status.clone();
    statuses.sort_unstable();
    statuses.dedup();
    let mut found = Vec::new();
    if statuses.is_empty() {
        found.push(look(conn, &sql(ALL), [before], filter, limit)?);
    }
    for status in &statuses {
        found.push(look(conn, &sql(FREE), params![before, status], filter, limit)?);
        found.push(look(conn, &sql(IN_FLIGHT), params![before, status], filter, limit)?);
    }
    Ok(merge(found, limit))
}

/// The statement that reads one source.
pub(crate) fn sql(source: &str) -> String {
    format!("SELECT {} FROM saga {source}", rows::COLUMNS)
}

fn look(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    filter: &ListFilter,
    limit: usize,
) -> rusqlite::Result<Found> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut source = statement.query(params)?;
    let mut rows = Vec::new();
    let mut looked_at = 0;
    while let Some(row) = source.next()? {
        looked_at += 1;
        // One more than asked for, to know whether there is a next page.
        if matches(filter, row)? {
            rows.push(rows::row(row)?);
        }
        if rows.len() > limit || looked_at >= LOOKED_AT_MAX {
            return Ok(Found { rows, down_to: Some(rows::number(row, 0)?) });
        }
    }
    Ok(Found { rows, down_to: None })
}

/// As [`ListFilter::matches`], without making a row of what is not shown. The status is the source's.
fn matches(filter: &ListFilter, row: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
    let ListFilter { status: _, saga, step, created_before, text } = filter;
    let is = |column: usize, wanted: &Option<String>| match wanted {
        None => Ok(true),
        Some(wanted) => row.get_ref(column).map(|value| value.as_str_or_null() == Ok(Some(wanted))),
    };
    let before = match created_before {
        None => true,
        Some(before) => Time(row.get(14)?) < *before,
    };
    let has_text = match text {
        None => true,
        Some(text) => row.get_ref(1)?.as_str()?.contains(text.as_str()),
    };
    Ok(before && has_text && is(2, saga)? && is(8, step)?)
}

fn merge(found: Vec<Found>, limit: usize) -> Page {
    // Below where one source stopped it may still have rows, so that nothing below is shown yet.
    let down_to = found.iter().filter_map(|source| source.down_to).max();
    let mut rows: Vec<Row> = found.into_iter().flat_map(|source| source.rows).collect();
    rows.retain(|row| down_to.is_none_or(|down_to| row.rowid >= down_to));
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.rowid));
    let next = if rows.len() > limit {
        rows.truncate(limit);
        rows.last().map(|row| row.rowid)
    } else {
        down_to
    };
    Page { rows, next: next.map(Cursor) }
}
