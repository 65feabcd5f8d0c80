//! A store in front of a store, that fails as it is told: before the call, or by losing its answer.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use crate::{
    Cursor, DeadGroup, Definitions, Due, Error, Gauge, Health, Intake, Item, Journal, Kind, ListFilter,
    Lists, Mail, Mailbox, NodeLease, Nodes, Outcome, Page, Retention, Row, Stats, Store, Stored,
    StoredDefinition, StoredEntry, Work,
};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails and nothing is written: [`Kind::Unavailable`].
    Before,
    /// What it writes is written, and the answer is lost: [`Kind::Indeterminate`]. A read is as if it had failed before.
    AnswerLost,
}

/// One call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The port's method, such as `commit`.
    pub name: &'static str,
    /// Which call of this store it is, from 0.
    pub number: u64,
}

/// Decides what happens to each call.
#[async_trait]
pub trait Faults: Send + Sync {
    /// Is awaited before the call, so that it can hold it up as well.
    async fn on(&self, call: Call) -> Fault;
}

/// The same number of times in a row: the faults of the next calls of one method, then none.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    faults: Mutex<VecDeque<Fault>>,
}

impl Script {
    /// The next calls of the method `name` go as `faults` says.
    pub fn new(name: &'static str, faults: impl IntoIterator<Item = Fault>) -> Self {
        Self { name, faults: Mutex::new(faults.into_iter().collect()) }
    }
}

#[async_trait]
impl Faults for Script {
    async fn on(&self, call: Call) -> Fault {
        if call.name != self.name {
            return Fault::None;
        }
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None)
    }
}

/// A store that fails as its [`Faults`] say. It passes on everything else, and keeps nothing itself.
pub struct Flaky {
    inner: Arc<dyn Store>,
    faults: Arc<dyn Faults>,
    calls: AtomicU64,
}

impl Flaky {
    /// Puts faults before a store.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, faults: Arc<dyn Faults>) -> Self {
        Self { inner, faults, calls: AtomicU64::new(0) }
    }

    async fn fault(&self, name: &'static str) -> Fault {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.faults.on(Call { name, number }).await
    }

    async fn write<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match self.fault(name).await {
            Fault::None => call.await,
            Fault::Before => Err(failed()),
            Fault::AnswerLost => call.await.and_then(|_| Err(lost())),
        }
    }

    async fn read<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match self.fault(name).await {
            Fault::None => call.await,
            Fault::Before | Fault::AnswerLost => Err(failed()),
        }
    }
}

fn failed() -> Error {
    Error::new(Kind::Unavailable, "the store was made to fail before this call")
}

fn lost() -> Error {
    Error::new(Kind::Indeterminate, "the store was made to lose the answer to this call")
}

#[async_trait]
impl Journal for Flaky {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let count = batch.len();
        match self.fault("commit").await {
            Fault::None => self.inner.commit(batch).await,
            Fault::Before => vec![Outcome::Failed(failed()); count],
            Fault::AnswerLost => {
                self.inner.commit(batch).await;
                vec![Outcome::Failed(lost()); count]
            }
        }
    }
    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        self.read("wrote", self.inner.wrote(id, seq, nonce)).await
    }
    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        self.read("load", self.inner.load(id)).await
    }
    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        self.read("entries", self.inner.entries(id, after, limit)).await
    }
    async fn park(&self, row: Row) -> Result<(), Error> {
        self.write("park", self.inner.park(row)).await
    }
}

#[async_trait]
impl Work for Flaky {
    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.write("claim_due", self.inner.claim_due(lease, now, limit)).await
    }
    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.write("take_over", self.inner.take_over(lease, now, limit)).await
    }
    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error> {
        self.write("claim", self.inner.claim(lease, id, now)).await
    }
    async fn next_due(&self) -> Result<Option<Time>, Error> {
        self.read("next_due", self.inner.next_due()).await
    }
    fn intake(&self) -> Option<&dyn Intake> {
        self.inner.intake()
    }
}

#[async_trait]
impl Nodes for Flaky {
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error> {
        self.write("join", self.inner.join(node, ttl_ms, now)).await
    }
    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error> {
        self.write("renew", self.inner.renew(lease, ttl_ms, now)).await
    }
    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        self.write("leave", self.inner.leave(lease)).await
    }
}

#[async_trait]
impl Mailbox for Flaky {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error> {
        self.write("post", self.inner.post(id, input_id, body, now)).await
    }
    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error> {
        self.read("waiting", self.inner.waiting(id, limit)).await
    }
    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error> {
        self.read("mine", self.inner.mine(lease, limit)).await
    }
    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        self.read("answer", self.inner.answer(mail)).await
    }
}

#[async_trait]
impl Definitions for Flaky {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        self.write("register", self.inner.register(definition)).await
    }
    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        self.read("by_digest", self.inner.by_digest(digest)).await
    }
    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        self.read("by_name", self.inner.by_name(name, version)).await
    }
    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error> {
        self.read("list", self.inner.list(after, limit)).await
    }
}

#[async_trait]
impl Lists for Flaky {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.read("page", self.inner.page(filter, cursor, limit)).await
    }
    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        self.read("row", self.inner.row(id)).await
    }
    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error> {
        self.read("dead_groups", self.inner.dead_groups(limit)).await
    }
    async fn stats(&self, now: Time) -> Result<Stats, Error> {
        self.read("stats", self.inner.stats(now)).await
    }
}

#[async_trait]
impl Retention for Flaky {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        self.write("prune", self.inner.prune(ended_before, limit)).await
    }
}

impl Health for Flaky {
    fn health(&self) -> Result<(), Error> {
        self.inner.health()
    }
    fn gauges(&self) -> Vec<Gauge> {
        self.inner.gauges()
    }
}
