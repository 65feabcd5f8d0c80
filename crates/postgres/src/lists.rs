//! Lists for people.

use amends_core::{SagaId, Time};
use amends_store::{Cursor, DeadGroup, Error, ListFilter, Lists, Page, Row, Stats};
use async_trait::async_trait;

use crate::PostgresStore;
use crate::counts;
use crate::error::Call;
use crate::rows::{self, columns, get, limit, number, sought};

/// Rows that one page has at most.
const PAGE_MAX: usize = 1_000;

/// Rows that a page looks at in one source before it gives what it has: some tens of milliseconds.
const LOOKED_AT_MAX: i64 = 20_000;

/// Status words of a filter that are looked at; there are far fewer.
const STATUSES_MAX: usize = 32;

// Of those looked at, the ones that match, and the last one looked at if there may be others behind it.
macro_rules! page {
    ($source:literal) => {
        concat!(
            "WITH looked AS MATERIALIZED (SELECT * FROM amends.saga WHERE rowid < $1 ",
            $source,
            " ORDER BY rowid DESC LIMIT $3), last AS (SELECT CASE WHEN count(*) >= $3 THEN min(rowid) END AS down_to FROM looked),
            shown AS (SELECT * FROM looked WHERE ($4::text IS NULL OR saga = $4) AND ($5::text IS NULL OR step = $5)
                AND ($6::bigint IS NULL OR created_at < $6) AND ($7::text IS NULL OR strpos(id, $7) > 0) ORDER BY rowid DESC LIMIT $8)
            SELECT ",
            columns!(),
            ", last.down_to FROM last LEFT JOIN shown s ON true ORDER BY s.rowid DESC"
        )
    };
}

const ALL: &str = page!("AND $2::text IS NULL");
const OF_STATUS: &str = page!("AND status = $2::text");

const ROW: &str = concat!("SELECT ", columns!(), " FROM amends.saga s WHERE s.id = $1");

const DEAD: &str =
    "SELECT saga, step, operation, error_class, count(*), min(updated_at), max(updated_at) FROM amends.saga
    WHERE status = 'dead' GROUP BY saga, step, operation, error_class
    ORDER BY 5 DESC, 1, 2 NULLS FIRST, 3 NULLS FIRST, 4 NULLS FIRST LIMIT $1";

/// What one source gave.
struct Found {
    rows: Vec<Row>,
    /// The last row looked at, if there may be others behind it.
    down_to: Option<u64>,
}

#[async_trait]
impl Lists for PostgresStore {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        let limit = limit.min(PAGE_MAX);
        let before = cursor.map_or(i64::MAX, |Cursor(rowid)| sought(rowid));
        let mut statuses = filter.status.clone();
        statuses.sort_unstable();
        statuses.dedup();
        statuses.truncate(STATUSES_MAX);
        let mut found = Vec::new();
        if statuses.is_empty() {
            found.push(self.look(ALL, None, before, filter, limit).await?);
        }
        for status in &statuses {
            found.push(self.look(OF_STATUS, Some(status), before, filter, limit).await?);
        }
        Ok(merge(found, limit))
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        let found = self.pool.query_opt(Call::Reads, ROW, &[&id.as_str()]).await?;
        found.as_ref().map(rows::row).transpose()
    }

    async fn dead_groups(&self, max: usize) -> Result<Vec<DeadGroup>, Error> {
        let found = self.pool.query(Call::Reads, DEAD, &[&limit(max)]).await?;
        let group = |row: &tokio_postgres::Row| {
            Ok(DeadGroup {
                saga: get(row, 0)?,
                step: get(row, 1)?,
                operation: get(row, 2)?,
                error_class: get(row, 3)?,
                count: number(row, 4)?,
                oldest: Time(get(row, 5)?),
                newest: Time(get(row, 6)?),
            })
        };
        found.iter().map(group).collect()
    }

    async fn stats(&self, _: Time) -> Result<Stats, Error> {
        counts::stats(&self.pool, &self.ended).await
    }
}

impl PostgresStore {
    async fn look(
        &self,
        sql: &'static str,
        status: Option<&str>,
        before: i64,
        filter: &ListFilter,
        max: usize,
    ) -> Result<Found, Error> {
        let ListFilter { status: _, saga, step, created_before, text } = filter;
        // One more than asked for, to know whether there is a next page.
        let (created_before, wanted) = (created_before.map(|at| at.0), limit(max.saturating_add(1)));
        let params: crate::pool::Params<'_> =
            &[&before, &status, &LOOKED_AT_MAX, saga, step, &created_before, text, &wanted];
        let mut found = Found { rows: Vec::new(), down_to: None };
        for row in self.pool.query(Call::Reads, sql, params).await? {
            let down_to = get::<Option<i64>>(&row, rows::COLUMN_COUNT)?;
            found.down_to = down_to.map(i64::unsigned_abs);
            if get::<Option<i64>>(&row, 0)?.is_some() {
                found.rows.push(rows::row(&row)?);
            }
        }
        if found.rows.len() > max {
            found.down_to = found.rows.last().map(|row| row.rowid).max(found.down_to);
        }
        Ok(found)
    }
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
