//! List rows made of sagas.

use amends_core::{Saga, Status, Time, status};
use amends_store::Row;

/// Who owns a saga once its row is written.
pub(crate) enum Owner {
    /// This node, under a lease of this epoch.
    Node(String, u64),
    /// Nobody, until this time or for ever.
    Nobody {
        /// When it is due.
        due: Option<Time>,
    },
}

/// The row of a saga as it is at `now`. `ended_at`: as an earlier row has it; what is recorded after its end moves
/// `updated_at` alone.
pub(crate) fn of(saga: &Saga, rowid: u64, owner: Owner, ended_at: Option<Time>, now: Time) -> Row {
    let focus = status::focus(saga);
    let (owner, due_at) = match owner {
        Owner::Node(name, epoch) => (Some((name, epoch)), None),
        Owner::Nobody { due } => (None, due),
    };
    let op = focus.as_ref().map(|focus| focus.op);
    let error_class =
        focus.and_then(|focus| focus.error_class).or_else(|| saga.stuck.as_ref().map(|_| STUCK.to_owned()));
    Row {
        rowid,
        id: saga.id.clone(),
        saga: saga.definition.name.clone(),
        definition_version: saga.definition.version,
        digest: saga.definition.digest.clone(),
        status: status::status(saga).as_str().to_owned(),
        business_state: status::business_state(saga),
        seq: saga.seq,
        step: op.map(|op| saga.definition.steps[op.step].name.clone()),
        operation: op.map(|op| op.kind.as_str().to_owned()),
        error_class,
        reason: status::reason(saga),
        contradictions: u32::try_from(saga.contradictions.len()).unwrap_or(u32::MAX),
        overdue: saga.overdue,
        created_at: saga.created_at,
        updated_at: now,
        ended_at: saga.ended.and(ended_at.or(Some(saga.updated_at))),
        due_at,
        owner,
    }
}

/// The row of a saga whose journal cannot be read: dead, nobody's, with the reason.
pub(crate) fn unreadable(row: Row, reason: String, now: Time) -> Row {
    Row {
        status: Status::Dead.as_str().to_owned(),
        error_class: Some(UNREADABLE.to_owned()),
        reason: Some(reason),
        updated_at: now,
        due_at: None,
        owner: None,
        ..row
    }
}

/// The error class of sagas that no operation says anything about.
const STUCK: &str = "stuck";

/// The error class of sagas whose journal cannot be read.
pub(crate) const UNREADABLE: &str = "unreadable";
