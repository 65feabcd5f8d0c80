//! Lists and counts for people.

use std::collections::BTreeMap;

use amends_core::{SagaId, Time};
use amends_store::{Cursor, DeadGroup, Error, ListFilter, Lists, Page, Row, Stats};
use async_trait::async_trait;

use super::library::{DEAD, PAGE, ROW, STATS};
use super::words::{Arguments, Words, unreadable};
use super::{RedisStore, encode};

/// Rows that one page has at most.
const PAGE_MAX: usize = 1_000;

/// Rows that one call looks at where a filter may hide most of them.
const LOOK_MAX: usize = 500;

/// Calls that are made to fill one page.
const PAGE_CALLS_MAX: usize = 25;

/// Groups of dead sagas that are looked at.
const GROUPS_MAX: usize = 1_000;

/// The largest number a score or a packed number holds exactly; rows are numbered far below.
const NUMBER_MAX: u64 = 1 << 53;

#[async_trait]
impl Lists for RedisStore {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        let limit = limit.min(PAGE_MAX);
        let is_plain = ListFilter { status: Vec::new(), ..filter.clone() } == ListFilter::default();
        let (mut rows, mut before) = (Vec::new(), cursor.map(|Cursor(rowid)| rowid));
        for _ in 0..PAGE_CALLS_MAX {
            // One more than asked for, to know whether there is a next page.
            let look = if is_plain { limit + 1 - rows.len() } else { LOOK_MAX };
            let found = self.rows_before(before, look, &filter.status).await?;
            let is_end = found.len() < look;
            for row in found {
                if filter.matches(&row) {
                    if rows.len() == limit {
                        let next = rows.last().map(|row: &Row| Cursor(row.rowid));
                        return Ok(Page { rows, next });
                    }
                    before = Some(row.rowid);
                    rows.push(row);
                } else {
                    before = Some(row.rowid);
                }
            }
            if is_end {
                return Ok(Page { rows, next: None });
            }
        }
        Ok(Page { rows, next: before.map(Cursor) })
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        let mut arguments = Arguments::default();
        arguments.add(id.as_str());
        let mut words = self.link.read(&ROW, &arguments).await?;
        if words.left() == 0 {
            return Ok(None);
        }
        encode::row(id.clone(), &mut words).map(Some)
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error> {
        let mut arguments = Arguments::default();
        arguments.number(GROUPS_MAX);
        let mut words = self.link.read(&DEAD, &arguments).await?;
        let mut groups = Vec::new();
        while words.left() > 0 {
            let (first, last) = (words.next()?, words.next()?);
            groups.push(encode::dead_group(&first, &last, words.number()?)?);
        }
        groups.sort_by(|a, b| {
            let names = |group: &DeadGroup| {
                (group.saga.clone(), group.step.clone(), group.operation.clone(), group.error_class.clone())
            };
            b.count.cmp(&a.count).then_with(|| names(a).cmp(&names(b)))
        });
        groups.truncate(limit);
        Ok(groups)
    }

    async fn stats(&self, _now: Time) -> Result<Stats, Error> {
        let mut words = self.link.read(&STATS, &Arguments::default()).await?;
        let (due, oldest_due, oldest_open) = (words.number()?, words.time()?, words.time()?);
        let mut stats = Stats { due, oldest_due, oldest_open, ..Stats::default() };
        let (mut open, mut ended) = (BTreeMap::new(), BTreeMap::new());
        while words.left() > 0 {
            let (field, count): (String, u64) = (words.text()?, words.number()?);
            let mut parts = field.split('\0');
            match (parts.next(), parts.next(), parts.next()) {
                (Some("o"), Some(status), Some(saga)) => {
                    open.insert((status.to_owned(), saga.to_owned()), count);
                }
                (Some("e"), Some(status), Some(_)) => *ended.entry(status.to_owned()).or_default() += count,
                (Some("c"), None, None) => stats.contradictions = count,
                _ => return Err(unreadable("the counts", "a name of none")),
            }
        }
        stats.open = open.into_iter().map(|((status, saga), count)| (status, saga, count)).collect();
        stats.ended = ended.into_iter().collect();
        Ok(stats)
    }
}

impl RedisStore {
    /// Up to so many rows, newest first, of any of these statuses (none: of all).
    async fn rows_before(
        &self,
        before: Option<u64>,
        limit: usize,
        statuses: &[String],
    ) -> Result<Vec<Row>, Error> {
        let mut wanted: Vec<&String> = statuses.iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let before = before.filter(|number| *number < NUMBER_MAX);
        let mut arguments = Arguments::default();
        arguments.add(before.map_or_else(String::new, |number| number.to_string())).number(limit);
        for status in wanted {
            arguments.add(status.as_bytes());
        }
        let mut words: Words = self.link.read(&PAGE, &arguments).await?;
        let mut rows = Vec::with_capacity(words.left() / 4);
        while words.left() > 0 {
            let id = words.id()?;
            rows.push(encode::row(id, &mut words)?);
        }
        Ok(rows)
    }
}
