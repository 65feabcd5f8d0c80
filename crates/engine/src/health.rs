//! How an engine fares.

use amends_store::Gauge;

use crate::{Engine, Metrics, intake};

/// Whether an engine can do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The store takes new work.
    pub writable: bool,
    /// The node's lease holds.
    pub lease: bool,
    /// It is stopping.
    pub stopping: bool,
    /// What is wrong, in plain words; empty if nothing is.
    pub reasons: Vec<String>,
}

impl Health {
    /// Whether it takes submissions.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.writable && self.lease && !self.stopping
    }
}

/// What an engine has in hand now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauges {
    /// Sagas in memory.
    pub sagas: usize,
    /// Those of them that were begun here and have not left memory since.
    pub begun: usize,
    /// How many of those there may be before submissions are refused.
    pub sagas_max: usize,
    /// Calls to participants under way.
    pub calls_in_flight: u64,
    /// Items that wait for a commit, or are being committed.
    pub commit_queue: usize,
    /// How many may wait before submissions are refused.
    pub commit_queue_max: usize,
    /// Callers that wait for a saga.
    pub waiters: usize,
    /// Epoch of the node's lease.
    pub epoch: u64,
    /// The store's own.
    pub store: Vec<Gauge>,
}

impl Engine {
    /// Whether the engine can do its work. Waits for nothing.
    #[must_use]
    pub fn health(&self) -> Health {
        let node = self.node();
        let store = node.store.health();
        let (writable, lease, stopping) = (store.is_ok(), node.lease().holds(), node.is_stopping());
        let mut reasons: Vec<String> = store.err().map(|error| error.message).into_iter().collect();
        if stopping {
            reasons.push("the engine is stopping".to_owned());
        } else if !lease {
            reasons.push("the node's lease has lapsed; it acts again once the store lets it join".to_owned());
        }
        Health { writable, lease, stopping, reasons }
    }

    /// What the engine has in hand now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let node = self.node();
        Gauges {
            sagas: node.sagas.len(),
            begun: node.sagas.begun(),
            sagas_max: node.config.limits.sagas_max,
            calls_in_flight: node.meter.calls_in_flight.get(),
            commit_queue: node.committer.waiting(),
            commit_queue_max: node.config.limits.commit_queue_max,
            waiters: node.waiters.count(),
            epoch: node.lease().epoch(),
            store: [node.store.gauges(), intake::gauges(node)].concat(),
        }
    }

    /// What the engine has counted since its start.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.node().meter.snapshot()
    }
}
