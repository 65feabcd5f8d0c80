//! Lists and counts.

use std::collections::BTreeMap;

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use super::Memory;
use crate::ports::Lists;
use crate::{Cursor, DeadGroup, Error, ListFilter, Page, Row, Stats};

#[async_trait]
impl Lists for Memory {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        let state = self.state();
        let mut rows: Vec<Row> = state
            .sagas
            .values()
            .rev()
            .map(|saga| &saga.row)
            .filter(|row| cursor.is_none_or(|Cursor(after)| row.rowid < after) && filter.matches(row))
            .take(limit.saturating_add(1))
            .cloned()
            .collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| Cursor(row.rowid));
        Ok(Page { rows, next })
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        Ok(self.state().by_id(id).map(|saga| saga.row.clone()))
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error> {
        let state = self.state();
        let mut groups = BTreeMap::new();
        for row in state.sagas.values().map(|saga| &saga.row).filter(|row| row.status == Row::DEAD) {
            let key = (&row.saga, &row.step, &row.operation, &row.error_class);
            let group = groups.entry(key).or_insert_with(|| DeadGroup {
                saga: row.saga.clone(),
                step: row.step.clone(),
                operation: row.operation.clone(),
                error_class: row.error_class.clone(),
                count: 0,
                oldest: row.updated_at,
                newest: row.updated_at,
            });
            group.count += 1;
            group.oldest = group.oldest.min(row.updated_at);
            group.newest = group.newest.max(row.updated_at);
        }
        let mut groups: Vec<DeadGroup> = groups.into_values().collect();
        // The sort is stable: groups of one size stay in the order of their names.
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups.truncate(limit);
        Ok(groups)
    }

    async fn stats(&self, now: Time) -> Result<Stats, Error> {
        let state = self.state();
        let (mut open, mut ended) = (BTreeMap::new(), BTreeMap::new());
        let mut stats = Stats::default();
        for row in state.sagas.values().map(|saga| &saga.row) {
            if row.ended_at.is_some() {
                *ended.entry(row.status.clone()).or_default() += 1;
            } else {
                *open.entry((row.status.clone(), row.saga.clone())).or_default() += 1;
                stats.oldest_open = earlier(stats.oldest_open, Some(row.created_at));
            }
            stats.contradictions += u64::from(row.contradictions > 0);
            match &row.owner {
                None => {
                    let due = row.due_at.filter(|due| *due <= now);
                    stats.due += u64::from(due.is_some());
                    stats.oldest_due = earlier(stats.oldest_due, due);
                }
                Some((node, epoch)) => stats.due += u64::from(!state.is_live(node, *epoch, now)),
            }
        }
        stats.open = open.into_iter().map(|((status, saga), count)| (status, saga, count)).collect();
        stats.ended = ended.into_iter().collect();
        Ok(stats)
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    [a, b].into_iter().flatten().min()
}
