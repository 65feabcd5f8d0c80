//! Lists and counts for people.

use std::collections::BTreeMap;

use amends_core::{SagaId, Time};
use amends_store::{Cursor, DeadGroup, Error, ListFilter, Lists, Page, Row, Stats};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::Call;
use crate::rows::{self, columns, limit, now_ms, number, number_opt, text, text_opt, time, time_opt};
use crate::sql::{Value, fill};

/// Rows that one page has at most.
const PAGE_MAX: usize = 1_000;

/// Rows that a page looks at in one source before it gives what it has: some tens of milliseconds.
const LOOKED_AT_MAX: u64 = 20_000;

/// Status words of a filter that are looked at; there are far fewer.
const STATUSES_MAX: usize = 32;

// The last row that is looked at, if there may be others behind it. It is read from the index alone.
const LAST_OF_ALL: &str = "SELECT rowid FROM amends_saga FORCE INDEX (PRIMARY) WHERE rowid < ? ORDER BY rowid DESC LIMIT 1 OFFSET ?";

const LAST_OF_STATUS: &str = "SELECT rowid FROM amends_saga FORCE INDEX (saga_status) WHERE rowid < ? AND status = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?";

macro_rules! page {
    ($index:literal, $source:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM amends_saga s FORCE INDEX (",
            $index,
            ") WHERE s.rowid < ? AND s.rowid >= ?",
            $source,
            " AND (? IS NULL OR s.saga = ?) AND (? IS NULL OR s.step = ?) AND (? IS NULL OR s.created_at < ?)
                AND (? IS NULL OR LOCATE(?, s.id) > 0) ORDER BY s.rowid DESC LIMIT ?"
        )
    };
}

const ALL: &str = page!("PRIMARY", "");
const OF_STATUS: &str = page!("saga_status", " AND s.status = ?");

const ROW: &str = concat!("SELECT ", columns!(), " FROM amends_saga s WHERE s.id = ?");

const DEAD: &str =
    "SELECT saga, step, operation, error_class, COUNT(*), MIN(updated_at), MAX(updated_at) FROM amends_saga
    WHERE status = x'64656164' GROUP BY saga, step, operation, error_class ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT ?";

const COUNTS: &str =
    "SELECT ended_at IS NOT NULL, status, saga, COUNT(*), MIN(created_at), SUM(contradictions > 0)
    FROM amends_saga GROUP BY 1, 2, 3";

const DUE: &str = concat!(
    "SELECT COUNT(*), MIN(due_at) FROM amends_saga WHERE owner_epoch IS NULL AND due_at <= ",
    now_ms!()
);

const LAPSED: &str = concat!(
    "SELECT COUNT(*) FROM amends_saga s WHERE s.owner_epoch IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM amends_node n WHERE n.epoch = s.owner_epoch AND n.expires_at > ",
    now_ms!(),
    ")"
);

/// What one source gave.
struct Found {
    rows: Vec<Row>,
    /// The last row looked at, if there may be others behind it.
    down_to: Option<u64>,
}

#[async_trait]
impl Lists for MySqlStore {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        let limit = limit.min(PAGE_MAX);
        let before = cursor.map_or(u64::MAX, |Cursor(rowid)| rowid);
        let mut statuses = filter.status.clone();
        statuses.sort_unstable();
        statuses.dedup();
        statuses.truncate(STATUSES_MAX);
        let mut found = Vec::new();
        if statuses.is_empty() {
            found.push(self.look(None, before, filter, limit).await?);
        }
        for status in &statuses {
            found.push(self.look(Some(status), before, filter, limit).await?);
        }
        Ok(merge(found, limit))
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        let found = self.pool.query_opt(Call::Reads, &fill(ROW, &[id.as_str().into()])).await?;
        found.as_ref().map(rows::row).transpose()
    }

    async fn dead_groups(&self, max: usize) -> Result<Vec<DeadGroup>, Error> {
        let found = self.pool.query(Call::Reads, &fill(DEAD, &[limit(max).into()])).await?;
        let group = |row: &mysql_async::Row| {
            Ok(DeadGroup {
                saga: text(row, 0)?,
                step: text_opt(row, 1)?,
                operation: text_opt(row, 2)?,
                error_class: text_opt(row, 3)?,
                count: number(row, 4)?,
                oldest: time(row, 5)?,
                newest: time(row, 6)?,
            })
        };
        found.iter().map(group).collect()
    }

    async fn stats(&self, _: Time) -> Result<Stats, Error> {
        let (mut open, mut ended) = (BTreeMap::new(), BTreeMap::new());
        let mut stats = Stats::default();
        for row in self.pool.query(Call::Reads, COUNTS).await? {
            let (status, count) = (text(&row, 1)?, number(&row, 3)?);
            if number(&row, 0)? == 1 {
                *ended.entry(status).or_default() += count;
            } else {
                *open.entry((status, text(&row, 2)?)).or_default() += count;
                stats.oldest_open = [stats.oldest_open, Some(time(&row, 4)?)].into_iter().flatten().min();
            }
            stats.contradictions += number_opt(&row, 5)?.unwrap_or(0);
        }
        for row in self.pool.query(Call::Reads, DUE).await? {
            stats.due = number(&row, 0)?;
            stats.oldest_due = time_opt(&row, 1)?;
        }
        for row in self.pool.query(Call::Reads, LAPSED).await? {
            stats.due += number(&row, 0)?;
        }
        stats.open = open.into_iter().map(|((status, saga), count)| (status, saga, count)).collect();
        stats.ended = ended.into_iter().collect();
        Ok(stats)
    }
}

impl MySqlStore {
    async fn look(
        &self,
        status: Option<&str>,
        before: u64,
        filter: &ListFilter,
        max: usize,
    ) -> Result<Found, Error> {
        let ListFilter { status: _, saga, step, created_before, text } = filter;
        let offset = LOOKED_AT_MAX.saturating_sub(1).into();
        let last = match status {
            None => fill(LAST_OF_ALL, &[before.into(), offset]),
            Some(status) => fill(LAST_OF_STATUS, &[before.into(), status.into(), offset]),
        };
        let last = self.pool.query_opt(Call::Reads, &last).await?;
        let down_to = last.map(|row| number(&row, 0)).transpose()?;
        let mut values: Vec<Value<'_>> = vec![before.into(), down_to.unwrap_or(0).into()];
        values.extend(status.map(Value::from));
        values.extend([saga.into(), saga.into(), step.into(), step.into()]);
        values.extend([(*created_before).into(), (*created_before).into(), text.into(), text.into()]);
        // One more than asked for, to know whether there is a next page.
        values.push(limit(max.saturating_add(1)).into());
        let sql = if status.is_some() { OF_STATUS } else { ALL };
        let rows = self.pool.query(Call::Reads, &fill(sql, &values)).await?;
        let rows: Vec<Row> = rows.iter().map(rows::row).collect::<Result<_, _>>()?;
        let mut found = Found { rows, down_to };
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
