//! The node's lease as those who act under it see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_participants::LeaseCheck;
use amends_store::NodeLease;

use crate::steady::Steady;

/// One lease of this node: from a join to its lapse. A saga in memory keeps the one under which it was opened, so that what
/// was begun under a lapsed lease stays powerless when the node has joined again.
pub(crate) struct Lease {
    epoch: u64,
    validity: Arc<Validity>,
    /// As the store gave it last.
    stored: Mutex<NodeLease>,
    check: LeaseCheck,
}

/// What each call under way asks before it writes to its socket.
struct Validity {
    clock: Arc<Steady>,
    /// On the running clock. 0: given up.
    until_ms: AtomicU64,
}

impl Validity {
    fn holds(&self) -> bool {
        self.clock.running_ms() < self.until_ms.load(Ordering::SeqCst)
    }
}

impl Lease {
    /// Begins to rely on a lease that was asked for at `asked_ms` on the running clock: its time counts from before the
    /// request, since nobody knows when within the call the store began it.
    pub(crate) fn begin(stored: NodeLease, clock: Arc<Steady>, asked_ms: u64, lasts: Duration) -> Self {
        let until_ms = AtomicU64::new(asked_ms.saturating_add(ms(lasts)));
        let validity = Arc::new(Validity { clock, until_ms });
        let check: LeaseCheck = {
            let validity = validity.clone();
            Arc::new(move || validity.holds())
        };
        Self { epoch: stored.epoch, validity, stored: Mutex::new(stored), check }
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
        let until_ms = asked_ms.saturating_add(ms(lasts));
        // Given up is given up, also while a renewal was on its way.
        let renew = |until: u64| (until != 0).then_some(until_ms);
        let _ = self.validity.until_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, renew);
    }

    /// Never relied on again.
    pub(crate) fn give_up(&self) {
        self.validity.until_ms.store(0, Ordering::SeqCst);
    }

    /// Whether it still holds, with the margin. Cheap: it is asked before each socket write.
    pub(crate) fn holds(&self) -> bool {
        self.validity.holds()
    }

    /// The same question, for a call to ask.
    pub(crate) fn check(&self) -> LeaseCheck {
        self.check.clone()
    }

    /// How much of it is left.
    pub(crate) fn left(&self) -> Duration {
        let until = self.validity.until_ms.load(Ordering::SeqCst);
        Duration::from_millis(until.saturating_sub(self.validity.clock.running_ms()))
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
