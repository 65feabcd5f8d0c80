//! The reference: records in memory behind one mutex.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::rules::{self, Record};
use super::{Acquired, Ask, Because, Hold, LockName, LockView, Locks, Release, Renewal, Steady, Ttl};
use crate::Error;

/// Locks within one process. Clones share them; they are forgotten with the last one. For tests: no record is ever removed.
#[derive(Debug, Clone, Default)]
pub struct MemoryLocks {
    records: Arc<Mutex<HashMap<LockName, Record>>>,
    clock: Steady,
}

impl MemoryLocks {
    /// No lock was ever used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Does something with a record, in one step.
    fn with<T>(&self, name: &LockName, change: impl FnOnce(&mut Option<Record>) -> T) -> T {
        // A panic of one caller must not take the locks from the others: no rule leaves a record half changed.
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = records.remove(name);
        let answer = change(&mut record);
        if let Some(record) = record {
            records.insert(name.clone(), record);
        }
        answer
    }
}

#[async_trait]
impl Locks for MemoryLocks {
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, Error> {
        self.with(&ask.name, |record| rules::acquire(record, 0, ask, self.clock.now()))
    }

    async fn renew(&self, hold: &Hold, ttl: Ttl) -> Result<Renewal, Error> {
        Ok(self.with(&hold.name, |record| rules::renew(record, hold, ttl, self.clock.now())))
    }

    async fn release(&self, hold: &Hold, because: &Because) -> Result<Release, Error> {
        Ok(self.with(&hold.name, |record| rules::release(record, hold, because, self.clock.now())))
    }

    async fn show(&self, name: &LockName) -> Result<LockView, Error> {
        Ok(self.with(name, |record| rules::view(record.as_ref(), self.clock.now())))
    }
}
