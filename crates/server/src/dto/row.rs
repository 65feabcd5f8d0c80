//! Rows of the list of sagas.

use amends_store::Row;
use serde::Serialize;
use utoipa::ToSchema;

use super::Stamp;

/// What a list shows of a saga. It may lag behind the saga itself.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SagaSummary)]
pub(crate) struct RowDto {
    /// The business id.
    id: String,
    /// Name of its definition.
    saga: String,
    /// Number of its last entry when the row was written.
    version: u64,
    /// Version of its definition.
    definition_version: u64,
    /// Digest of its definition.
    digest: String,
    /// As in the saga object.
    status: String,
    /// What the definition calls the state it is in.
    business_state: String,
    /// Its deadline passed when it could no longer be undone.
    overdue: bool,
    /// Why it is where it is, in plain words.
    reason: Option<String>,
    /// The step most in need of attention.
    step: Option<String>,
    /// `action` or `compensation`.
    operation: Option<String>,
    /// What kind of trouble.
    error_class: Option<String>,
    /// How often evidence disagreed with what was known.
    contradictions: u32,
    /// When it next does something by itself.
    due_at: Option<Stamp>,
    /// When it was submitted.
    created_at: Stamp,
    /// When the row was written.
    updated_at: Stamp,
    /// When it ended.
    ended_at: Option<Stamp>,
}

impl From<Row> for RowDto {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.into(),
            saga: row.saga,
            version: row.seq,
            definition_version: row.definition_version,
            digest: row.digest,
            status: row.status,
            business_state: row.business_state,
            overdue: row.overdue,
            reason: row.reason,
            step: row.step,
            operation: row.operation,
            error_class: row.error_class,
            contradictions: row.contradictions,
            due_at: row.due_at.map(Stamp),
            created_at: Stamp(row.created_at),
            updated_at: Stamp(row.updated_at),
            ended_at: row.ended_at.map(Stamp),
        }
    }
}

/// A page of the list of sagas, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SagaList {
    pub(crate) items: Vec<RowDto>,
    /// The cursor of the next page; null on the last.
    pub(crate) next: Option<String>,
    /// The list may lag behind the sagas themselves; this is when it was read.
    pub(crate) as_of: Stamp,
}
