//! `apply`: the only way in which a saga changes. Live run, recovery, exploration and tests all come through here.
//!
//! It holds no policy: what an operation does next is written in the entry. What follows from the entries by
//! definition — whose turn it is, what is undone — is derived here, so that it needs no entry of its own.

mod change;
mod derive;

use std::sync::Arc;

use change::change;
use derive::derive;

use crate::definition::Definition;
use crate::saga::{Accepting, Direction, OpState, Saga, StepState};
use crate::{Entry, EntryKind, OpRef};

/// A journal that cannot be this definition's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There are no entries.
    #[error("the journal is empty")]
    Empty,
    /// The first entry is not `submitted`, or a later one is.
    #[error("entry {0} cannot stand there: `submitted` is the first entry and only that")]
    Misplaced(u64),
    /// A number is missing or doubled.
    #[error("entry {found} follows entry {after}")]
    Gap {
        /// The entry before.
        after: u64,
        /// The entry found.
        found: u64,
    },
    /// It names a step or operation that the definition does not have.
    #[error("entry {0} names an operation that the definition does not have")]
    UnknownOperation(u64),
    /// It is pinned to another definition.
    #[error("the journal is pinned to definition {pinned}, not to {given}")]
    OtherDefinition {
        /// Digest in the journal.
        pinned: String,
        /// Digest given.
        given: String,
    },
}

/// Makes a saga of its whole journal.
///
/// # Errors
/// [`Unreadable`] if the entries are not a journal of this definition; the saga must then be parked, visible.
pub fn replay(definition: Arc<Definition>, entries: &[Entry]) -> Result<Saga, Unreadable> {
    let (first, rest) = entries.split_first().ok_or(Unreadable::Empty)?;
    let mut saga = begin(definition, first)?;
    for entry in rest {
        apply(&mut saga, entry)?;
    }
    Ok(saga)
}

/// Makes a saga of its first entry.
pub(crate) fn begin(definition: Arc<Definition>, entry: &Entry) -> Result<Saga, Unreadable> {
    let EntryKind::Submitted { id, digest, input, claims, deadline_at, accepting, trace, epoch, who: _ } =
        &entry.kind
    else {
        return Err(Unreadable::Misplaced(entry.seq));
    };
    if entry.seq != 1 {
        return Err(Unreadable::Gap { after: 0, found: entry.seq });
    }
    if *digest != definition.digest {
        return Err(Unreadable::OtherDefinition { pinned: digest.clone(), given: definition.digest.clone() });
    }
    let step = StepState {
        started: false,
        done: false,
        skipped: false,
        undone: false,
        action: OpState::new(),
        compensation: OpState::new(),
    };
    let mut saga = Saga {
        steps: vec![step; definition.steps.len()],
        definition,
        id: id.clone(),
        input: Arc::new(input.clone()),
        claims: Arc::new(claims.clone()),
        trace: trace.as_deref().map(Arc::from),
        seq: 1,
        created_at: entry.at,
        updated_at: entry.at,
        deadline_at: *deadline_at,
        accepting: accepting.then_some(Accepting { due: entry.at, refused: 0 }),
        direction: Direction::Forward,
        undo: None,
        undo_pending: None,
        overdue: false,
        reached: None,
        last_done: None,
        ended: None,
        stuck: None,
        epoch: *epoch,
        take_overs_in_a_row: 0,
        loss: 0,
        moved_nothing: 0,
        contradictions: Vec::new(),
    };
    derive(&mut saga, entry.at);
    Ok(saga)
}

/// Applies the next entry.
///
/// # Errors
/// [`Unreadable`] if it is not the next one, or names an operation that is not there. The saga is then unchanged.
pub fn apply(saga: &mut Saga, entry: &Entry) -> Result<(), Unreadable> {
    if entry.seq != saga.seq + 1 {
        return Err(Unreadable::Gap { after: saga.seq, found: entry.seq });
    }
    check_operations(saga, entry)?;
    saga.seq = entry.seq;
    saga.updated_at = entry.at;
    if !matches!(entry.kind, EntryKind::TakenOver { .. }) {
        saga.take_overs_in_a_row = 0;
        saga.moved_nothing = 0;
    }
    change(saga, entry);
    derive(saga, entry.at);
    Ok(())
}

fn check_operations(saga: &Saga, entry: &Entry) -> Result<(), Unreadable> {
    if matches!(entry.kind, EntryKind::Submitted { .. }) {
        return Err(Unreadable::Misplaced(entry.seq));
    }
    let mut named: Vec<OpRef> = entry.kind.op().into_iter().collect();
    if let EntryKind::TakenOver { next, .. } | EntryKind::Lost { next, .. } = &entry.kind {
        named.extend(next.iter().map(|(op, _)| *op));
    }
    if let EntryKind::Undoing { reason, .. } | EntryKind::UndoPending { reason, .. } = &entry.kind {
        named.extend(reason.op());
    }
    let step_is_unknown = matches!(entry.kind, EntryKind::Skipped { step, .. } if step >= saga.steps.len());
    if step_is_unknown || named.into_iter().any(|op| saga.operation(op).is_none()) {
        return Err(Unreadable::UnknownOperation(entry.seq));
    }
    Ok(())
}
