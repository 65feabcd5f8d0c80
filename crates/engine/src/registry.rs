//! The sagas in memory: only those in flight.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amends_core::SagaId;
use tokio::task::AbortHandle;

use crate::saga::Cell;

/// So many maps share the ids between them, so that many threads rarely meet at one lock.
const SHARDS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    shards: [Mutex<Shard>; SHARDS],
    begun: AtomicUsize,
    read: AtomicUsize,
}

/// Ordered, so that whatever goes through all of them does so in the same order in each run of a simulation.
type Shard = BTreeMap<SagaId, Resident>;

#[derive(Debug)]
struct Resident {
    cell: Arc<Cell>,
    task: AbortHandle,
}

impl Registry {
    pub(crate) fn get(&self, id: &SagaId) -> Option<Arc<Cell>> {
        self.shard(id).get(id).map(|resident| resident.cell.clone())
    }

    /// Enters a saga, unless it is there: then not `make`, which starts the task that drives it, but `met` is called with the
    /// one that is there, and it comes back. Nobody enters or leaves meanwhile.
    pub(crate) fn enter(
        &self,
        id: &SagaId,
        make: impl FnOnce() -> (Arc<Cell>, AbortHandle),
        met: impl FnOnce(&Cell),
    ) -> Result<(), Arc<Cell>> {
        let mut shard = self.shard(id);
        if let Some(resident) = shard.get(id) {
            met(&resident.cell);
            return Err(resident.cell.clone());
        }
        let (cell, task) = make();
        self.count(&cell).fetch_add(1, Ordering::Relaxed);
        shard.insert(id.clone(), Resident { cell, task });
        Ok(())
    }

    /// Takes this cell out. One that came in its place stays.
    pub(crate) fn leave(&self, cell: &Arc<Cell>) {
        let mut shard = self.shard(&cell.id);
        if shard.get(&cell.id).is_some_and(|resident| Arc::ptr_eq(&resident.cell, cell)) {
            shard.remove(&cell.id);
            self.count(cell).fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes all out and ends their tasks where they stand, as a crash would.
    pub(crate) fn abort_all(&self) {
        for shard in &self.shards {
            let residents = std::mem::take(&mut *lock(shard));
            // Outside the lock: a task that ends wants to leave the registry.
            for resident in residents.values() {
                self.count(&resident.cell).fetch_sub(1, Ordering::Relaxed);
                resident.task.abort();
            }
        }
    }

    pub(crate) fn cells(&self) -> Vec<Arc<Cell>> {
        let cells = |shard: &Mutex<Shard>| lock(shard).values().map(|r| r.cell.clone()).collect::<Vec<_>>();
        self.shards.iter().flat_map(cells).collect()
    }

    /// All of them.
    pub(crate) fn len(&self) -> usize {
        self.begun() + self.read()
    }

    /// Those begun here.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// Those read from the store.
    pub(crate) fn read(&self) -> usize {
        self.read.load(Ordering::Relaxed)
    }

    fn count(&self, cell: &Cell) -> &AtomicUsize {
        if cell.begun_here { &self.begun } else { &self.read }
    }

    fn shard(&self, id: &SagaId) -> MutexGuard<'_, Shard> {
        // FNV-1a: the same in every run, and good enough to spread ids.
        let hash = id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        lock(&self.shards[(hash % SHARDS as u64) as usize])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
