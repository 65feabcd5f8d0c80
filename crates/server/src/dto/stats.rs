//! Counts.

use amends_store::Stats;
use serde::Serialize;
use utoipa::ToSchema;

use super::Stamp;

/// Counts over all sagas.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub(crate) struct StatsDto {
    /// Sagas that have not ended, by status and definition.
    open: Vec<OpenCount>,
    /// Sagas that have ended, by status.
    ended: Vec<EndedCount>,
    /// When the oldest saga that has not ended was submitted.
    oldest_open_at: Option<Stamp>,
    /// Sagas that are due and that no node has taken up yet.
    due: u64,
    /// When the one of them that waits longest became due.
    oldest_due_at: Option<Stamp>,
    /// Sagas with evidence that disagrees with what was known.
    contradictions: u64,
    /// The counts may lag behind the sagas themselves; this is when they were read.
    as_of: Stamp,
}

/// Sagas of one status and definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenCount {
    status: String,
    saga: String,
    count: u64,
}

/// Ended sagas of one status.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedCount {
    status: String,
    count: u64,
}

impl StatsDto {
    /// Converts.
    pub(crate) fn new(stats: &Stats, as_of: Stamp) -> Self {
        let open = stats.open.iter().cloned();
        let ended = stats.ended.iter().cloned();
        Self {
            open: open.map(|(status, saga, count)| OpenCount { status, saga, count }).collect(),
            ended: ended.map(|(status, count)| EndedCount { status, count }).collect(),
            oldest_open_at: stats.oldest_open.map(Stamp),
            due: stats.due,
            oldest_due_at: stats.oldest_due.map(Stamp),
            contradictions: stats.contradictions,
            as_of,
        }
    }
}
