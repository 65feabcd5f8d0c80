//! What the parts of an engine share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_core::{Now, Time};
use amends_participants::Caller;
use amends_store::{Backlog, Row, Store};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;

use crate::committer::{Batches, Committer};
use crate::definitions::Definitions;
use crate::holders::Holders;
use crate::lease::Lease;
use crate::meter::{Limit, Meter};
use crate::random::Random;
use crate::registry::Registry;
use crate::steady::Steady;
use crate::waiters::Waiters;
use crate::{Config, Refused};

/// One engine process's share of the work: everything its tasks have in common.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) clock: Arc<Steady>,
    pub(crate) random: Random,
    pub(crate) committer: Committer,
    pub(crate) sagas: Registry,
    pub(crate) waiters: Waiters,
    pub(crate) definitions: Definitions,
    pub(crate) meter: Arc<Meter>,
    /// Tells the scheduler that something is due now.
    pub(crate) due_now: Notify,
    /// Who waits for whose claims.
    pub(crate) holders: Holders,
    /// What callers' transactions have left, as of the last look.
    pub(crate) backlog: Mutex<Backlog>,
    /// Tells that submissions which were put off may be possible now.
    pub(crate) intake_now: Notify,
    /// Places for sagas that are being read from the store.
    pub(crate) openings: Arc<Semaphore>,
    /// Tells that this node may have sagas of its own former lives to take over.
    pub(crate) joined: Notify,
    lease: Mutex<Arc<Lease>>,
    stopping: AtomicBool,
    halted: AtomicBool,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// The ports an engine stands on.
pub(crate) struct Ports {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) clock: Arc<Steady>,
}

impl Node {
    pub(crate) fn new(config: Config, ports: Ports, lease: Lease) -> (Arc<Self>, Batches) {
        let limits = &config.limits;
        let (committer, batches) =
            Committer::new(limits.commit_queue_max, limits.commit_batch_max, limits.commits_in_flight_max);
        let node = Self {
            random: Random::new(config.seed),
            committer,
            sagas: Registry::default(),
            waiters: Waiters::new(limits.waiters_max),
            definitions: Definitions::new(limits.definitions_max, config.times.highest_version_age_max),
            meter: Arc::new(Meter::new(limits.definitions_max)),
            due_now: Notify::new(),
            holders: Holders::default(),
            backlog: Mutex::default(),
            intake_now: Notify::new(),
            openings: Arc::new(Semaphore::new(limits.openings_max.max(1))),
            joined: Notify::new(),
            lease: Mutex::new(Arc::new(lease)),
            stopping: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            tasks: Mutex::default(),
            store: ports.store,
            caller: ports.caller,
            clock: ports.clock,
            config,
        };
        (Arc::new(node), batches)
    }

    /// Runs a task that lives as long as the engine.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(task).abort_handle();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// When something is decided, and with what jitter.
    pub(crate) fn deciding(&self) -> Now {
        Now { at: self.clock.now(), jitter: self.random.jitter() }
    }

    /// The lease the node has now; it may have lapsed.
    pub(crate) fn lease(&self) -> Arc<Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn joined_anew(&self, lease: Lease) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lease);
        self.joined.notify_one();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn stop_beginning(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::SeqCst)
    }

    /// Whether sagas may be claimed: not while the node stops, has no lease, or its store takes nothing.
    pub(crate) fn takes_work(&self) -> bool {
        !self.is_stopping() && self.lease().holds() && self.store.health().is_ok()
    }

    /// How many sagas may be claimed now.
    pub(crate) fn room(&self, batch_max: usize) -> usize {
        let limits = &self.config.limits;
        // At least one, whatever the limits: nothing may wait for ever.
        let most = limits.sagas_and_due_max.saturating_sub(limits.sagas_max).max(1);
        let left = most.saturating_sub(self.sagas.read());
        left.min(self.openings.available_permits()).min(batch_max)
    }

    /// Refuses because of a limit, and counts it.
    pub(crate) fn refuse(&self, limit: Limit) -> Refused {
        self.meter.refused(limit);
        Refused::Overloaded { what: limit.as_str(), retry_after_ms: RETRY_AFTER_MS }
    }

    /// Ends everything where it stands, as a crash would: nothing more is sent or written.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::SeqCst);
        self.stop_beginning();
        self.lease().give_up();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|task| task.abort());
        self.sagas.abort_all();
    }

    /// How long the node may rely on a lease.
    pub(crate) fn lease_lasts(config: &Config) -> Duration {
        config.times.lease_ttl.saturating_sub(config.times.lease_margin)
    }
}

/// When to come back after a limit was hit: what a full engine works off in about a second.
const RETRY_AFTER_MS: u64 = 1_000;

impl Lease {
    /// Whether this lease's row it is.
    pub(crate) fn owns(&self, row: &Row) -> bool {
        row.owner.as_ref().is_some_and(|(_, epoch)| *epoch == self.epoch())
    }
}
