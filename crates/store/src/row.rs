//! List rows: what lists, due work and claims know of a saga without reading its journal.

use amends_core::{SagaId, Time};

use crate::StoredEntry;

/// A saga's row in lists and in the due index. Written at submission, when the saga parks, is taken over, and at its end: it may lag.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number in the store, in order of arrival; 0 until the store has given one.
    pub rowid: u64,
    /// Business id.
    pub id: SagaId,
    /// Name of its definition.
    pub saga: String,
    /// Version of its definition.
    pub definition_version: u64,
    /// Digest of its definition.
    pub digest: String,
    /// Status word, as in the API.
    pub status: String,
    /// Business state.
    pub business_state: String,
    /// `seq` of the last entry when the row was written. The store sees to it: what an item says here is ignored.
    pub seq: u64,
    /// The step most in need of attention, if any (waiting, unknown, dead).
    pub step: Option<String>,
    /// Its operation.
    pub operation: Option<String>,
    /// What kind of trouble, for grouping.
    pub error_class: Option<String>,
    /// Why, in plain words.
    pub reason: Option<String>,
    /// Contradictions recorded.
    pub contradictions: u32,
    /// The deadline passed after the pivot.
    pub overdue: bool,
    /// Submitted.
    pub created_at: Time,
    /// Row written.
    pub updated_at: Time,
    /// Ended.
    pub ended_at: Option<Time>,
    /// When it has to be looked at, if nobody owns it. `None`: never by itself.
    pub due_at: Option<Time>,
    /// The node that owns it, and the epoch of its lease; `None`: nobody.
    pub owner: Option<(String, u64)>,
}

impl Row {
    /// The status word of sagas that machines may no longer drive: what [`crate::Lists::dead_groups`] looks for.
    pub const DEAD: &str = "dead";
}

/// A saga as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its list row.
    pub row: Row,
    /// Its journal, in order. Empty if retention removed it, but for what is kept.
    pub entries: Vec<StoredEntry>,
}

/// A saga that is due, or was taken over.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    /// Its id.
    pub id: SagaId,
    /// Its number in the store.
    pub rowid: u64,
}

/// A node's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLease {
    /// The node's name.
    pub node: String,
    /// Grows with every lease of any node.
    pub epoch: u64,
    /// When it lapses unless renewed, on the store's clock.
    pub expires_at: Time,
}

/// Which sagas a list shows; every condition must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListFilter {
    /// Status words; empty: any.
    pub status: Vec<String>,
    /// Definition name.
    pub saga: Option<String>,
    /// Step most in need of attention.
    pub step: Option<String>,
    /// Submitted before.
    pub created_before: Option<Time>,
    /// Part of the id, case-sensitive.
    pub text: Option<String>,
}

impl ListFilter {
    /// Whether a row is shown.
    #[must_use]
    pub fn matches(&self, row: &Row) -> bool {
        let Self { status, saga, step, created_before, text } = self;
        (status.is_empty() || status.contains(&row.status))
            && saga.as_ref().is_none_or(|saga| *saga == row.saga)
            && step.as_ref().is_none_or(|step| Some(step) == row.step.as_ref())
            && created_before.is_none_or(|before| row.created_at < before)
            && text.as_ref().is_none_or(|text| row.id.as_str().contains(text.as_str()))
    }
}

/// Where a page of a list goes on: after the row with this number (newest first).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(pub u64);

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The rows, newest first.
    pub rows: Vec<Row>,
    /// Where the next page begins.
    pub next: Option<Cursor>,
}

/// Dead sagas that died alike.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadGroup {
    /// Definition name.
    pub saga: String,
    /// Step.
    pub step: Option<String>,
    /// Operation.
    pub operation: Option<String>,
    /// Error class.
    pub error_class: Option<String>,
    /// How many.
    pub count: u64,
    /// When the one waiting longest died.
    pub oldest: Time,
    /// When the last one died.
    pub newest: Time,
}

/// Counts over all list rows; each list in the order of its words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// (status, definition name, count), for sagas that have not ended.
    pub open: Vec<(String, String, u64)>,
    /// (status, count), for ended ones.
    pub ended: Vec<(String, u64)>,
    /// Submission of the oldest saga that has not ended.
    pub oldest_open: Option<Time>,
    /// Rows that are due and nobody's, or a lapsed node's.
    pub due: u64,
    /// When the longest due of them became due.
    pub oldest_due: Option<Time>,
    /// Sagas with contradictions.
    pub contradictions: u64,
}

/// A definition as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Its digest.
    pub digest: String,
    /// Its canonical JSON tree.
    pub tree: String,
    /// When it was registered.
    pub created_at: Time,
}
