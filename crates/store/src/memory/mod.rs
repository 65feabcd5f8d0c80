//! The reference store: everything in memory behind one mutex, simple enough to be obviously right.
//!
//! It is what other stores are compared with, and what tests run on. It looks through all sagas to find due ones, so
//! it is not made for many; and it forgets everything when dropped.

mod intake;
mod journal;
mod lists;
mod records;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use amends_core::{SagaId, Time};
use tokio::sync::Notify;

use crate::ports::Health;
use crate::{Row, StoredDefinition, StoredEntry};

/// A store that keeps everything in memory.
///
/// Share it as `Arc<dyn Store>`. All answers are immediate; nothing is durable beyond the value itself.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
    /// Told when a caller's row has come.
    came: Notify,
}

impl Memory {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of one caller must not take the store from the others: no method leaves a change half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health for Memory {}

/// What a real store has as tables.
#[derive(Debug, Default)]
struct State {
    sagas: BTreeMap<u64, Saga>,
    rowids: HashMap<SagaId, u64>,
    claims: BTreeMap<String, Claim>,
    mails: BTreeMap<u64, Letter>,
    nodes: BTreeMap<String, Lease>,
    definitions: BTreeMap<(String, u64), StoredDefinition>,
    intake: BTreeMap<u64, intake::Waiting>,
    intake_last: u64,
    rowid_last: u64,
    mail_last: u64,
    epoch_last: u64,
}

/// A saga with its journal. `row.seq` is always the last entry's number, also when retention removed that entry.
#[derive(Debug)]
struct Saga {
    row: Row,
    fingerprint: String,
    journal: Vec<Written>,
    pruned: bool,
}

/// An entry, and the write it came with.
#[derive(Debug)]
struct Written {
    entry: StoredEntry,
    nonce: u64,
}

#[derive(Debug)]
struct Claim {
    saga: u64,
    since: Time,
}

/// A mail, its addressee and its answer.
#[derive(Debug)]
struct Letter {
    saga: u64,
    input_id: String,
    body: Vec<u8>,
    posted_at: Time,
    answer: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Lease {
    epoch: u64,
    expires_at: Time,
}

impl State {
    /// Whether a lease is alive: the last of its node, and not over.
    fn is_live(&self, node: &str, epoch: u64, now: Time) -> bool {
        self.nodes.get(node).is_some_and(|lease| lease.epoch == epoch && lease.expires_at > now)
    }

    /// The saga's oldest mail without an answer.
    fn oldest_mail(&self, rowid: u64) -> Option<&Letter> {
        self.mails.values().find(|letter| letter.saga == rowid && letter.answer.is_none())
    }

    fn by_id(&self, id: &SagaId) -> Option<&Saga> {
        self.rowids.get(id).and_then(|rowid| self.sagas.get(rowid))
    }
}
