//! The ports. Several small ones rather than a fat one; each backend implements all, callers take what they need.
//!
//! `now` is the caller's clock. A store shared by several machines uses its own clock for leases and due times and
//! ignores it; an embedded store has no other.

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use crate::Error;
use crate::intake::Intake;
use crate::item::{Item, Mail, Outcome, StoredEntry};
use crate::row::{Cursor, DeadGroup, Due, ListFilter, NodeLease, Page, Row, Stats, Stored, StoredDefinition};

/// Sagas and their journals.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Commits a batch; answers each item, in order. Items are atomic each, and independent of each other, except that two
    /// items of one saga take effect in their order, and that after one of them was not committed the later ones of that
    /// saga in the batch conflict too: they were decided on what did not happen. Durable when it returns.
    ///
    /// For that reason a caller sends no item of a saga while another one of it is on its way in another batch. A batch
    /// is written as one: the caller bounds its length. Dropping the future takes nothing back.
    ///
    /// A second call with the same item: `Same` for a submission, `Conflict` for an advance (its own entries are the last).
    /// After [`crate::Kind::Indeterminate`], [`Journal::wrote`] tells.
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome>;

    /// Whether the entry `seq` of this saga was written by the write with this nonce. `None`: there is no such entry.
    /// An error as long as the store itself cannot tell, such as after a failed sync until it is opened again.
    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error>;

    /// A saga's row and whole journal, from one moment. `None`: no such saga. The row's `seq` is the last entry's, also
    /// where retention removed that entry. [`crate::Kind::Corrupt`] names the saga.
    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error>;

    /// Up to `limit` entries after `seq`.
    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error>;

    /// Writes the row alone of a saga whose journal cannot be read, so that it is visible and nobody's. It checks no `seq` and
    /// changes none, and it is due when the row says, even with mail in its box: otherwise it would be claimed for ever.
    /// A second call changes nothing; a saga that is not there is no error.
    async fn park(&self, row: Row) -> Result<(), Error>;
}

/// Due work. Its cost follows what is due, not what exists.
///
/// A lease that is over claims nothing. A claim whose answer was lost is the node's nevertheless: its next epoch takes it over.
/// A store may give fewer than there are: call again until it gives none.
#[async_trait]
pub trait Work: Send + Sync {
    /// Makes up to `limit` sagas that are nobody's and due at `now` this node's, longest due first, and names them.
    /// Two nodes never get the same one.
    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error>;

    /// Makes up to `limit` sagas of nodes whose lease has lapsed (or of this node's own earlier epochs) this node's, and names
    /// them, ended ones too. The former owner is not fenced by that, only by the next entry of the new one.
    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error>;

    /// Makes one saga this node's if it is nobody's, or a lapsed node's. True also if it is this node's already.
    /// False: another node's, or there is none.
    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error>;

    /// When the earliest saga that is nobody's becomes due.
    async fn next_due(&self) -> Result<Option<Time>, Error>;

    /// Where sagas come from that callers begin in SQL transactions of their own. `None`: nobody can, in this store.
    fn intake(&self) -> Option<&dyn Intake> {
        None
    }
}

/// Node leases: one a node, not one a saga.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Begins a lease with a new epoch, larger than any before. An earlier lease of the same name has lapsed by that.
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error>;

    /// Prolongs a lease. `None`: it has lapsed, or another of the same name began; the node must stop.
    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error>;

    /// Ends a lease at once; what it still owns can be taken over. For a lease that is over already it does nothing.
    async fn leave(&self, lease: &NodeLease) -> Result<(), Error>;
}

/// Inputs for sagas that another node owns.
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Posts an input, durably, and makes the saga due at once, parked or ended: at once if it is nobody's, else as soon as
    /// its owner lets it go without having answered. The same `input_id` again, for the same saga, gives the number of the first.
    /// `None`: no such saga.
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error>;

    /// Up to `limit` mails of a saga that have no answer yet, oldest first.
    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error>;

    /// Ids of sagas owned by this node that have mail waiting, up to `limit`.
    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error>;

    /// The answer to a mail, once the owner has written it; the first one stands.
    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error>;
}

/// Definitions: immutable once registered.
#[async_trait]
pub trait Definitions: Send + Sync {
    /// Registers a definition. True: new; false: this name and version exist with the same digest. With another digest: the stored one comes back as the inner error.
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error>;

    /// By digest.
    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error>;

    /// By name, the highest version or the given one.
    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error>;

    /// All, by name and version, after (name, version), up to `limit`.
    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error>;
}

/// Lists for people. They may lag behind the journal on the hot path.
#[async_trait]
pub trait Lists: Send + Sync {
    /// A page of rows, newest first. A store bounds how many rows it looks at: there may be fewer than `limit`, even
    /// none, while `next` says where to go on.
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error>;

    /// Rows by id alone.
    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error>;

    /// Dead sagas by (definition, step, operation, error class), largest group first, up to `limit`.
    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error>;

    /// Counts.
    async fn stats(&self, now: Time) -> Result<Stats, Error>;
}

/// Retention: ids stay for ever, journals and payloads do not.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Removes journal and payload of up to `limit` sagas that ended before `ended_before`, but keeps entries marked `keep`. The id row
    /// (fingerprint, end, last `seq`) stays. Sagas that somebody owns, or that have mail waiting, are left for later. Answered
    /// mails posted before that go too. Gives how many sagas and mails; call again until 0.
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error>;
}

/// A number that a store shows to whoever watches it, such as the size of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// Its name, unit last: `wal_bytes`.
    pub name: &'static str,
    /// What it says, in one sentence.
    pub help: &'static str,
    /// Its value now.
    pub value: u64,
}

/// A loss of what a store had acknowledged, which people have accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Grows with every loss.
    pub number: u64,
    /// The largest number of a saga that was there then.
    pub rowid_max: u64,
}

/// Whether a store can be relied on. No method waits for the store.
pub trait Health: Send + Sync {
    /// An error while the store takes no new work: a node then claims nothing and refuses submissions, and may go on reading.
    /// The message names cause and remedy. It may become `Ok` again by itself when the cause goes away.
    fn health(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The last loss that people have accepted, if there was one: sagas up to that number may have lost their newest entries.
    fn loss(&self) -> Option<Loss> {
        None
    }

    /// Numbers to watch.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}

/// A whole store.
pub trait Store: Journal + Work + Nodes + Mailbox + Definitions + Lists + Retention + Health {}

impl<T: Journal + Work + Nodes + Mailbox + Definitions + Lists + Retention + Health> Store for T {}
