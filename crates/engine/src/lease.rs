//! The node's lease as those who act under it see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_store::NodeLease;

use crate::Clock;

/// One lease of this node: from a join to its lapse. A saga in memory keeps the one under which it was opened, so that what
/// was begun under a lapsed lease stays powerless when the node has joined again.
pub(crate) struct Lease {
    epoch: u64,
    clock: Arc<dyn Clock>,
    /// On the running clock. 0: given up.
    valid_until_ms: AtomicU64,
    /// As the store gave it last.
    stored: Mutex<NodeLease>,
}

impl Lease {
    /// Begins to rely on a lease that was asked for at `asked_ms` on the running clock: its time counts from before the
    /// request, since nobody knows when within the call the store began it.
    pub(crate) fn begin(stored: NodeLease, clock: Arc<dyn Clock>, asked_ms: u64, lasts: Duration) -> Self {
        let valid_until_ms = AtomicU64::new(asked_ms.saturating_add(ms(lasts)));
        Self { epoch: stored.epoch, clock, valid_until_ms, stored: Mutex::new(stored) }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What the store knows it by.
    pub(crate) fn stored(&self) -> NodeLease {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn renewed(&self, stored: NodeLease, asked_ms: u64, lasts: Duration) {
        *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = stored;
        self.valid_until_ms.store(asked_ms.saturating_add(ms(lasts)), Ordering::SeqCst);
    }

    /// Never relied on again.
    pub(crate) fn give_up(&self) {
        self.valid_until_ms.store(0, Ordering::SeqCst);
    }

    /// Whether it still holds, with the margin. Cheap: it is asked before each socket write.
    pub(crate) fn holds(&self) -> bool {
        self.clock.running_ms() < self.valid_until_ms.load(Ordering::SeqCst)
    }

    /// How much of it is left.
    pub(crate) fn left(&self) -> Duration {
        let until = self.valid_until_ms.load(Ordering::SeqCst);
        Duration::from_millis(until.saturating_sub(self.clock.running_ms()))
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
