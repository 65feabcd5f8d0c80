//! What can be seen of a run: the only thing that checkers look at.

use std::fmt;
use std::sync::Arc;

use amends_core::{OpRef, Saga, SagaId, Time};
use amends_store::{Advance, Advanced, StoredEntry, Submission, Submitted};
use serde_json::Value;

use crate::ledger::Effect;

/// One life of one node: from a start of its engine to its crash or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LifeId {
    /// Which node.
    pub(crate) node: u8,
    /// Which of its lives, from 1.
    pub(crate) number: u32,
}

impl fmt::Display for LifeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(b'a' + self.node), self.number)
    }
}

/// What a caller was told of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is durable, and it is new.
    Created,
    /// It is durable, and was known.
    Known,
    /// Refused for certain: nothing was written.
    Refused(&'static str),
    /// Another saga has this id.
    OtherInput,
    /// Nobody knows: no answer, or one that says so.
    Unclear,
}

/// What a person was told of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Done, and durable.
    Done,
    /// Refused; nothing has changed.
    Refused(&'static str),
    /// Refused, because something has happened since they looked.
    Stale,
    /// Nobody knows.
    Unclear,
}

/// What happened. Store events are what the store did, whether or not anybody was told.
#[derive(Debug)]
pub(crate) enum Event {
    /// A node began a lease.
    Joined { life: LifeId, epoch: u64, until: Time },
    /// A lease was prolonged.
    Renewed { epoch: u64, until: Time },
    /// A lease was ended by its node.
    Left { epoch: u64 },
    /// A node made a saga its own.
    Claimed { epoch: u64, saga: SagaId },
    /// A caller's own transaction that begins a saga was committed.
    Arrived { saga: SagaId },
    /// A submission came to the store.
    Began { life: LifeId, submission: Box<Submission>, outcome: Submitted },
    /// An advance came to the store.
    Advanced { life: LifeId, advance: Box<Advance>, outcome: Advanced },
    /// Retention removed what it removes of a saga; `left` is what it left.
    Pruned { saga: SagaId, ended_before: Time, left: Vec<StoredEntry> },
    /// A request left a node.
    Sent { life: LifeId, epoch: u64, saga: SagaId, op: OpRef, key: String, attempt: u32, is_query: bool },
    /// A participant carried something out.
    Happened(Effect),
    /// Somebody submitted a saga and heard of it.
    Submitted { saga: SagaId, name: String, input: Value, told: Told },
    /// Somebody looked at a saga.
    Seen(Arc<Saga>),
    /// Somebody read a page of a journal, after entry number `after`.
    Read { saga: SagaId, after: u64, entries: Vec<StoredEntry> },
    /// Somebody looked at a saga of which nothing but the list row is left.
    SeenRow { saga: SagaId, status: String },
    /// A person acted; `mark` is the reason they gave, unlike any other; `seen` the version they
    /// saw. `may_be_nothing`: there may be nothing left to be done.
    Acted { saga: SagaId, mark: String, seen: Option<u64>, may_be_nothing: bool, heard: Heard },
    /// A participant reported an outcome, and was told that it is durable.
    Reported { saga: SagaId, op: OpRef, done: bool },
    /// A life of a node ended.
    Died { life: LifeId, how: &'static str },
    /// A task of the engine panicked.
    Panicked(String),
    /// What the store holds of a saga in the end.
    Stored { saga: SagaId, entries: Vec<StoredEntry> },
    /// Nothing moves any more, long after faults have ended.
    Rested,
    /// Retention has had all the time it needs.
    PruningOver { keep_ms: u64 },
    /// A claim could not be taken although no open saga holds it.
    ClaimStuck { claim: String, holder: SagaId },
    /// A person could not end a saga that machines may not drive.
    CannotClose { saga: SagaId, why: String },
    /// Every message has arrived and every node is gone: nothing happens after this.
    Over,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined { life, epoch, until } => write!(f, "{life} joins, epoch {epoch} until {}", until.0),
            Self::Renewed { epoch, until } => write!(f, "epoch {epoch} renewed until {}", until.0),
            Self::Left { epoch } => write!(f, "epoch {epoch} left"),
            Self::Claimed { epoch, saga } => write!(f, "{saga} is claimed by epoch {epoch}"),
            Self::Arrived { saga } => write!(f, "{saga} is committed in a caller's transaction"),
            Self::Began { life, submission, outcome } => {
                let what = match outcome {
                    Submitted::Created(rowid) => format!("created as {rowid}"),
                    Submitted::Same => "same".to_owned(),
                    Submitted::Different => "different".to_owned(),
                    Submitted::Held(holder) => format!("{} is held by {}", holder.claim, holder.saga),
                };
                let entries = kinds(&submission.entries);
                write!(
                    f,
                    "{life} submits {}: {what} [{entries}] claims {:?}",
                    submission.row.id, submission.claims
                )
            }
            Self::Advanced { life, advance, outcome } => {
                let what = match outcome {
                    Advanced::Committed => "committed",
                    Advanced::Conflict => "conflict",
                    Advanced::Held(_) => "claim held",
                };
                let entries = kinds(&advance.entries);
                write!(f, "{life} advances {} after {}: {what} [{entries}]", advance.id, advance.after)?;
                if let Some(row) = &advance.row {
                    let due = row.due_at.map(|due| due.0);
                    write!(f, " row {} {:?} due {due:?} {:?}", row.status, row.owner, row.reason)?;
                }
                if !advance.mail.is_empty() {
                    write!(f, " answers {} mails", advance.mail.len())?;
                }
                Ok(())
            }
            Self::Pruned { saga, ended_before, left } => {
                write!(f, "{saga} pruned (ended before {}), {} entries left", ended_before.0, left.len())
            }
            Self::Sent { life, epoch, saga: _, op: _, key, attempt, is_query } => {
                let query = if *is_query { "?" } else { "" };
                write!(f, "{life} sends {key}{query} attempt {attempt} epoch {epoch}")
            }
            Self::Happened(effect) => write!(f, "EFFECT {}", effect.key),
            Self::Submitted { saga, name: _, input: _, told } => {
                write!(f, "caller of {saga} was told {told:?}")
            }
            Self::Seen(saga) => {
                write!(
                    f,
                    "{} seen at version {} as {:?}",
                    saga.id,
                    saga.seq,
                    amends_core::status::status(saga)
                )
            }
            Self::Read { saga, after, entries } => {
                write!(f, "{} entries of {saga} after {after} were read", entries.len())
            }
            Self::SeenRow { saga, status } => write!(f, "{saga} seen as a row, {status}"),
            Self::Acted { saga, mark, seen: _, may_be_nothing: _, heard } => {
                write!(f, "person {mark} on {saga} heard {heard:?}")
            }
            Self::Reported { saga, op, done } => write!(f, "callback of {saga} {op:?} taken, done: {done}"),
            Self::Died { life, how } => write!(f, "{life} {how}"),
            Self::Panicked(what) => write!(f, "PANIC {what}"),
            Self::Stored { saga, entries } => write!(f, "{saga} is stored with {} entries", entries.len()),
            Self::Rested => f.write_str("all at rest"),
            Self::PruningOver { keep_ms } => write!(f, "retention of {keep_ms} ms has had its time"),
            Self::ClaimStuck { claim, holder } => write!(f, "claim {claim} is still held by {holder}"),
            Self::CannotClose { saga, why } => write!(f, "{saga} cannot be closed: {why}"),
            Self::Over => f.write_str("over"),
        }
    }
}

fn kinds(entries: &[StoredEntry]) -> String {
    let words = entries.iter().map(|entry| String::from_utf8_lossy(&entry.body).into_owned());
    words.collect::<Vec<_>>().join(" ")
}
