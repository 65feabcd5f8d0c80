//! The memory store, with faults: at each commit a test decides what happens.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use amends_core::{SagaId, Time};
use amends_store::{
    Cursor, DeadGroup, Definitions, Due, Error, Health, Intake, Item, Journal, Kind, ListFilter, Lists, Loss,
    Mail, Mailbox, Memory, NodeLease, Nodes, Outcome, Page, Retention, Row, Stats, Stored, StoredDefinition,
    StoredEntry, Work,
};
use async_trait::async_trait;

/// What happens at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is written.
    Fails(Kind),
    /// It is written; the answer is lost.
    LosesAnswer,
    /// Nothing is written, and the answer is lost.
    LosesBoth,
    /// The answer is lost, and it is written only after somebody has looked for it.
    LandsLate,
    /// The engine crashes before it is written: the call never returns.
    CrashesBefore,
    /// The engine crashes after it was written: the call never returns.
    CrashesAfter,
}

type Decide = Box<dyn FnMut(usize, &[Item]) -> Option<Fault> + Send>;

pub(crate) struct Faulty {
    inner: Arc<Memory>,
    commits: AtomicUsize,
    decide: Mutex<Option<Decide>>,
    /// What was answered as lost and is still on its way.
    on_its_way: Mutex<Vec<Item>>,
    /// Every call fails as if nobody were there.
    down: AtomicBool,
    /// A commit met a crash.
    pub(crate) crashed: AtomicBool,
    /// Due work was claimed, or looked for and found to exist, so often.
    pub(crate) claims: AtomicUsize,
    pub(crate) loads: AtomicUsize,
    /// What people have accepted as lost.
    pub(crate) loss: Mutex<Option<Loss>>,
    /// Entries of this kind are shown as one that this version does not know: how an older node sees them.
    older_than: Option<&'static str>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<Memory>) -> Self {
        Self {
            inner,
            commits: AtomicUsize::new(0),
            decide: Mutex::new(None),
            on_its_way: Mutex::default(),
            down: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
            claims: AtomicUsize::new(0),
            loads: AtomicUsize::new(0),
            loss: Mutex::default(),
            older_than: None,
        }
    }

    /// The store as a node sees it of a version that had no entries of this kind.
    pub(crate) fn older_than(inner: Arc<Memory>, kind: &'static str) -> Self {
        Self { older_than: Some(kind), ..Self::new(inner) }
    }

    fn seen(&self, mut entry: StoredEntry) -> StoredEntry {
        let new = self.older_than.map(|kind| format!("{{\"{kind}\":"));
        if let Some(rest) = new.and_then(|new| entry.body.strip_prefix(new.as_bytes()).map(<[u8]>::to_vec)) {
            entry.body = [b"{\"not known yet\":".as_slice(), &rest].concat();
        }
        entry
    }

    /// From now on this decides what happens at the n-th commit, from 1.
    pub(crate) fn at_commit(&self, decide: impl FnMut(usize, &[Item]) -> Option<Fault> + Send + 'static) {
        self.commits.store(0, Ordering::SeqCst);
        *self.decide.lock().expect("not poisoned") = Some(Box::new(decide));
    }

    pub(crate) fn no_faults(&self) {
        *self.decide.lock().expect("not poisoned") = None;
    }

    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    fn up(&self) -> Result<&Memory, Error> {
        if self.down.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Unavailable, "the store is down"));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl Journal for Faulty {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let n = batch.len();
        let fail = |kind, words: &str| vec![Outcome::Failed(Error::new(kind, words)); n];
        let nth = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = self.decide.lock().expect("not poisoned").as_mut().and_then(|decide| decide(nth, &batch));
        // A commit takes its time: the next batch forms meanwhile.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let Ok(inner) = self.up() else { return fail(Kind::Unavailable, "the store is down") };
        let landing = std::mem::take(&mut *self.on_its_way.lock().expect("not poisoned"));
        if !landing.is_empty() {
            inner.commit(landing).await;
        }
        match fault {
            None => inner.commit(batch).await,
            Some(Fault::Fails(kind)) => fail(kind, "it failed"),
            Some(Fault::LosesAnswer) => {
                inner.commit(batch).await;
                fail(Kind::Indeterminate, "the connection was lost at COMMIT")
            }
            Some(Fault::LandsLate) => {
                *self.on_its_way.lock().expect("not poisoned") = batch;
                fail(Kind::Indeterminate, "the connection was lost at COMMIT")
            }
            Some(Fault::LosesBoth) => fail(Kind::Indeterminate, "the connection was lost at COMMIT"),
            Some(Fault::CrashesBefore) => {
                self.crashed.store(true, Ordering::SeqCst);
                std::future::pending().await
            }
            Some(Fault::CrashesAfter) => {
                inner.commit(batch).await;
                self.crashed.store(true, Ordering::SeqCst);
                std::future::pending().await
            }
        }
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        self.up()?.wrote(id, seq, nonce).await
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let stored = self.up()?.load(id).await?;
        Ok(stored.map(|stored| Stored {
            entries: stored.entries.into_iter().map(|entry| self.seen(entry)).collect(),
            ..stored
        }))
    }

    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        let entries = self.up()?.entries(id, after, limit).await?;
        Ok(entries.into_iter().map(|entry| self.seen(entry)).collect())
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        self.up()?.park(row).await
    }
}

#[async_trait]
impl Work for Faulty {
    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.up()?.claim_due(lease, now, limit).await
    }

    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.up()?.take_over(lease, now, limit).await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error> {
        self.up()?.claim(lease, id, now).await
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        self.up()?.next_due().await
    }

    fn intake(&self) -> Option<&dyn Intake> {
        self.inner.intake()
    }
}

#[async_trait]
impl Nodes for Faulty {
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error> {
        self.up()?.join(node, ttl_ms, now).await
    }

    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error> {
        self.up()?.renew(lease, ttl_ms, now).await
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        self.up()?.leave(lease).await
    }
}

#[async_trait]
impl Mailbox for Faulty {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error> {
        self.up()?.post(id, input_id, body, now).await
    }

    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error> {
        self.up()?.waiting(id, limit).await
    }

    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error> {
        self.up()?.mine(lease, limit).await
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        self.up()?.answer(mail).await
    }
}

#[async_trait]
impl Definitions for Faulty {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        self.up()?.register(definition).await
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        self.up()?.by_digest(digest).await
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        self.up()?.by_name(name, version).await
    }

    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error> {
        self.up()?.list(after, limit).await
    }
}

#[async_trait]
impl Lists for Faulty {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.up()?.page(filter, cursor, limit).await
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        self.up()?.row(id).await
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error> {
        self.up()?.dead_groups(limit).await
    }

    async fn stats(&self, now: Time) -> Result<Stats, Error> {
        self.up()?.stats(now).await
    }
}

#[async_trait]
impl Retention for Faulty {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        self.up()?.prune(ended_before, limit).await
    }
}

impl Health for Faulty {
    fn health(&self) -> Result<(), Error> {
        self.up().map(|_| ())
    }

    fn loss(&self) -> Option<Loss> {
        *self.loss.lock().expect("not poisoned")
    }
}
