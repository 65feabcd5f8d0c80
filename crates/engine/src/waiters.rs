//! Who waits for a saga to end, or to need attention.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amends_core::{Saga, SagaId};
use tokio::sync::oneshot;

type Waiting = BTreeMap<(SagaId, u64), oneshot::Sender<Arc<Saga>>>;

/// Waiters by saga. They outlive a saga's stay in memory: one that parks and comes back still tells those who waited.
#[derive(Debug)]
pub(crate) struct Waiters {
    waiting: Mutex<Waiting>,
    /// As many as are in `waiting`, so that a saga nobody waits for takes no lock.
    count: AtomicUsize,
    next: AtomicUsize,
    max: usize,
}

/// One waiter; leaving is dropping it.
pub(crate) struct Ticket<'a> {
    waiters: &'a Waiters,
    key: (SagaId, u64),
    pub(crate) told: oneshot::Receiver<Arc<Saga>>,
}

impl Waiters {
    pub(crate) fn new(max: usize) -> Self {
        Self { waiting: Mutex::default(), count: AtomicUsize::new(0), next: AtomicUsize::new(0), max }
    }

    /// Joins. Whoever joins first and looks at the saga afterwards misses nothing. `None`: too many wait already.
    pub(crate) fn join(&self, id: &SagaId) -> Option<Ticket<'_>> {
        let (tell, told) = oneshot::channel();
        let key = (id.clone(), self.next.fetch_add(1, Ordering::Relaxed) as u64);
        let mut waiting = self.lock();
        if waiting.len() >= self.max {
            return None;
        }
        waiting.insert(key.clone(), tell);
        self.count.store(waiting.len(), Ordering::SeqCst);
        Some(Ticket { waiters: self, key, told })
    }

    /// Tells everybody who waits for this saga how it is.
    pub(crate) fn tell(&self, saga: &Arc<Saga>) {
        for tell in self.take(&saga.id) {
            // Gone in the meantime: it has left already.
            let _ = tell.send(saga.clone());
        }
    }

    /// The saga is not in memory any more: whoever waits for it must look for it elsewhere.
    pub(crate) fn stir(&self, id: &SagaId) {
        drop(self.take(id));
    }

    fn take(&self, id: &SagaId) -> Vec<oneshot::Sender<Arc<Saga>>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut waiting = self.lock();
        let range = (id.clone(), 0)..=(id.clone(), u64::MAX);
        let keys: Vec<_> = waiting.range(range).map(|(key, _)| key.clone()).collect();
        let taken = keys.iter().filter_map(|key| waiting.remove(key)).collect();
        self.count.store(waiting.len(), Ordering::SeqCst);
        taken
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        waiting.remove(&self.key);
        self.waiters.count.store(waiting.len(), Ordering::SeqCst);
    }
}
