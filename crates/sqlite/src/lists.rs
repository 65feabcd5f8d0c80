//! Lists and counts for people.

use std::collections::BTreeMap;

use amends_core::{SagaId, Time};
use amends_store::{Cursor, DeadGroup, Error, ListFilter, Lists, Page, Row, Stats};
use async_trait::async_trait;
use rusqlite::Connection;

use crate::SqliteStore;
use crate::nodes::is_live;
use crate::page::page;
use crate::rows::{self, COLUMNS, all, int, limit, number, one, time};
use crate::work::owning_epochs;

/// Rows that one page has at most.
pub(crate) const PAGE_MAX: usize = 1_000;

/// Reads that are made to fill one page: each looks at a bounded number of rows, and holds the log only as long.
const PAGE_READS_MAX: usize = 25;

pub(crate) const DEAD: &str =
    "SELECT saga, step, operation, error_class, count(*), min(updated_at), max(updated_at)
    FROM saga WHERE status = 'dead' GROUP BY saga, step, operation, error_class
    ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT ?1";

const TALLY: &str = "SELECT ended, status, saga, count FROM tally WHERE count > 0";

pub(crate) const IN_FLIGHT: &str =
    "SELECT ended_at IS NOT NULL, status, saga, count(*), min(created_at) FROM saga
    WHERE owner_epoch IS NOT NULL GROUP BY 1, 2, 3";

// Rows are numbered in order of arrival.
pub(crate) const OLDEST: &str =
    "SELECT created_at FROM saga WHERE owner_epoch IS NULL AND status = ?1 ORDER BY rowid LIMIT 1";

pub(crate) const DUE: &str = "SELECT count(*), min(due_at) FROM saga
    WHERE owner_epoch IS NULL AND due_at IS NOT NULL AND due_at <= ?1";

pub(crate) const OWNED_COUNT: &str = "SELECT count(*) FROM saga WHERE owner_epoch = ?1";

pub(crate) const CONTRADICTED: &str = "SELECT count(*) FROM saga WHERE contradictions > 0";

#[async_trait]
impl Lists for SqliteStore {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        let limit = limit.min(PAGE_MAX);
        let mut whole = Page { rows: Vec::new(), next: cursor };
        for _ in 0..PAGE_READS_MAX {
            let (filter, from, left) = (filter.clone(), whole.next, limit - whole.rows.len());
            let part = self.readers.read(move |conn| page(conn, &filter, from, left)).await?;
            whole.rows.extend(part.rows);
            whole.next = part.next;
            if whole.next.is_none() || whole.rows.len() >= limit {
                break;
            }
        }
        Ok(whole)
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        let id = id.clone();
        let sql = format!("SELECT {COLUMNS} FROM saga WHERE id = ?1");
        self.readers.read(move |conn| one(conn, &sql, [id.as_str()], rows::row)).await
    }

    async fn dead_groups(&self, max: usize) -> Result<Vec<DeadGroup>, Error> {
        self.readers
            .read(move |conn| {
                all(conn, DEAD, [limit(max)], |row| {
                    Ok(DeadGroup {
                        saga: row.get(0)?,
                        step: row.get(1)?,
                        operation: row.get(2)?,
                        error_class: row.get(3)?,
                        count: number(row, 4)?,
                        oldest: time(row, 5)?,
                        newest: time(row, 6)?,
                    })
                })
            })
            .await
    }

    async fn stats(&self, now: Time) -> Result<Stats, Error> {
        self.readers.read(move |conn| stats(conn, now)).await
    }
}

fn stats(conn: &Connection, now: Time) -> rusqlite::Result<Stats> {
    let (mut open, mut ended) = (BTreeMap::new(), BTreeMap::new());
    let mut oldest = Vec::new();
    let mut count = |is_ended: bool, status: String, saga: String, count: u64| {
        if is_ended {
            *ended.entry(status).or_default() += count;
        } else {
            *open.entry((status, saga)).or_default() += count;
        }
    };
    for (is_ended, status, saga, n) in all(conn, TALLY, [], tally)? {
        if !is_ended {
            oldest.extend(one(conn, OLDEST, [&status], |row| time(row, 0))?);
        }
        count(is_ended, status, saga, n);
    }
    for ((is_ended, status, saga, n), since) in
        all(conn, IN_FLIGHT, [], |row| Ok((tally(row)?, time(row, 4)?)))?
    {
        if !is_ended {
            oldest.push(since);
        }
        count(is_ended, status, saga, n);
    }
    let (mut due, oldest_due): (u64, Option<i64>) =
        conn.prepare_cached(DUE)?.query_row([now.0], |row| Ok((number(row, 0)?, row.get(1)?)))?;
    for epoch in owning_epochs(conn)? {
        if !is_live(conn, epoch, now)? {
            due += conn.prepare_cached(OWNED_COUNT)?.query_row([int(epoch)?], |row| number(row, 0))?;
        }
    }
    Ok(Stats {
        open: open.into_iter().map(|((status, saga), count)| (status, saga, count)).collect(),
        ended: ended.into_iter().collect(),
        oldest_open: oldest.into_iter().min(),
        due,
        oldest_due: oldest_due.map(Time),
        contradictions: conn.prepare_cached(CONTRADICTED)?.query_row([], |row| number(row, 0))?,
    })
}

/// Reads (ended, status, saga, count).
fn tally(row: &rusqlite::Row<'_>) -> rusqlite::Result<(bool, String, String, u64)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, number(row, 3)?))
}
