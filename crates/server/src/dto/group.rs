//! Groups of dead letters.

use amends_store::DeadGroup;
use serde::Serialize;
use utoipa::ToSchema;

use super::Stamp;

/// Dead sagas that died alike.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterGroup)]
pub(crate) struct GroupDto {
    /// Name of the definition.
    saga: String,
    /// The step; null if no step is to blame.
    step: Option<String>,
    /// `action` or `compensation`.
    operation: Option<String>,
    /// What kind of trouble.
    error_class: Option<String>,
    /// How many.
    count: u64,
    /// When the one that waits longest died.
    oldest: Stamp,
    /// When the last one died.
    newest: Stamp,
}

impl From<DeadGroup> for GroupDto {
    fn from(group: DeadGroup) -> Self {
        Self {
            saga: group.saga,
            step: group.step,
            operation: group.operation,
            error_class: group.error_class,
            count: group.count,
            oldest: Stamp(group.oldest),
            newest: Stamp(group.newest),
        }
    }
}

/// Groups of dead letters, the largest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterGroups)]
pub(crate) struct GroupList {
    pub(crate) items: Vec<GroupDto>,
    /// Always null: the groups fit one page.
    pub(crate) next: Option<String>,
    /// When the groups were read.
    pub(crate) as_of: Stamp,
}
