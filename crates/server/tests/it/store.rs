//! A store that can be switched off.

use std::sync::atomic::{AtomicBool, Ordering};

use amends_core::{SagaId, Time};
use amends_store::{
    Cursor, DeadGroup, Definitions, Due, Error, Gauge, Health, Intake, Item, Journal, Kind, ListFilter,
    Lists, Mail, Mailbox, Memory, NodeLease, Nodes, Outcome, Page, Retention, Row, Stats, Stored,
    StoredDefinition, StoredEntry, Work,
};
use async_trait::async_trait;

/// The memory store with a switch.
#[derive(Default)]
pub(crate) struct Switched {
    memory: Memory,
    off: AtomicBool,
}

impl Switched {
    /// From now on nothing can be read or written.
    pub(crate) fn switch_off(&self) {
        self.off.store(true, Ordering::SeqCst);
    }

    pub(crate) fn switch_on(&self) {
        self.off.store(false, Ordering::SeqCst);
    }

    /// Commits a submission in a transaction of somebody's own.
    pub(crate) fn arrive(&self, saga: &str, id: &str, input: &str) {
        assert!(self.memory.arrive(saga, id, input).unwrap());
    }

    fn check(&self) -> Result<(), Error> {
        if self.off.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Unavailable, "the store is switched off; switch it on"));
        }
        Ok(())
    }
}

#[async_trait]
impl Journal for Switched {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        if let Err(error) = self.check() {
            return batch.iter().map(|_| Outcome::Failed(error.clone())).collect();
        }
        self.memory.commit(batch).await
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        self.check()?;
        self.memory.wrote(id, seq, nonce).await
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        self.check()?;
        self.memory.load(id).await
    }

    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        self.check()?;
        self.memory.entries(id, after, limit).await
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        self.check()?;
        self.memory.park(row).await
    }
}

#[async_trait]
impl Work for Switched {
    fn intake(&self) -> Option<&dyn Intake> {
        Some(&self.memory)
    }

    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.check()?;
        self.memory.claim_due(lease, now, limit).await
    }

    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.check()?;
        self.memory.take_over(lease, now, limit).await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error> {
        self.check()?;
        self.memory.claim(lease, id, now).await
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        self.check()?;
        self.memory.next_due().await
    }
}

#[async_trait]
impl Nodes for Switched {
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error> {
        self.check()?;
        self.memory.join(node, ttl_ms, now).await
    }

    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error> {
        self.check()?;
        self.memory.renew(lease, ttl_ms, now).await
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        self.check()?;
        self.memory.leave(lease).await
    }
}

#[async_trait]
impl Mailbox for Switched {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error> {
        self.check()?;
        self.memory.post(id, input_id, body, now).await
    }

    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error> {
        self.check()?;
        self.memory.waiting(id, limit).await
    }

    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error> {
        self.check()?;
        self.memory.mine(lease, limit).await
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        self.check()?;
        self.memory.answer(mail).await
    }
}

#[async_trait]
impl Definitions for Switched {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        self.check()?;
        self.memory.register(definition).await
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        self.check()?;
        self.memory.by_digest(digest).await
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        self.check()?;
        self.memory.by_name(name, version).await
    }

    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error> {
        self.check()?;
        self.memory.list(after, limit).await
    }
}

#[async_trait]
impl Lists for Switched {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.check()?;
        self.memory.page(filter, cursor, limit).await
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        self.check()?;
        self.memory.row(id).await
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error> {
        self.check()?;
        self.memory.dead_groups(limit).await
    }

    async fn stats(&self, now: Time) -> Result<Stats, Error> {
        self.check()?;
        self.memory.stats(now).await
    }
}

#[async_trait]
impl Retention for Switched {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        self.check()?;
        self.memory.prune(ended_before, limit).await
    }
}

impl Health for Switched {
    fn health(&self) -> Result<(), Error> {
        self.check()
    }

    fn gauges(&self) -> Vec<Gauge> {
        vec![Gauge { name: "switches", help: "Switches of this store.", value: 1 }]
    }
}
