//! Orders, and what happened to them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use amends::{Amends, Builder, Config, OnUnknown, Retry, Saga};
use serde::{Deserialize, Serialize};

/// The input of most sagas here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) sku: String,
    pub(crate) qty: u32,
}

impl Order {
    pub(crate) fn of(sku: &str, qty: u32) -> Self {
        Self { sku: sku.to_owned(), qty }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reserved {
    pub(crate) reservation: u32,
}

/// What handlers did, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|seen| *seen == what).count()
    }

    /// Waits until something was noted; what hangs is ended by the runner.
    pub(crate) async fn until(&self, what: &str) {
        while self.count(what) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Waits as short as the engine allows.
pub(crate) fn quick(config: &mut Config) {
    config.times.poll_every = Duration::from_millis(20);
    config.times.take_over_every = Duration::from_millis(20);
}

pub(crate) fn in_memory() -> Builder {
    Amends::builder("memory:").tune(quick)
}

pub(crate) async fn started<I>(saga: &Saga<I>) -> Amends {
    in_memory().saga(saga).start().await.unwrap()
}

pub(crate) fn quick_retry() -> Retry {
    Retry { initial_ms: 5, max_interval_ms: 10, ..Retry::default() }
}

/// Two queries without a pause, then verification as soon as it may be.
pub(crate) fn quick_unknown() -> OnUnknown {
    OnUnknown { queries: 2, interval_ms: 5, verify_ms: vec![20], verify_for_ms: 60_000 }
}

/// A file for a store, in a folder that goes with the value.
pub(crate) fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/orders.db", folder.path().display());
    (folder, url)
}

/// A process that is killed when the test ends, however it ends: also one that is stopped.
pub(crate) struct Killed(pub(crate) std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It fails only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a person reads of a saga that waits.
pub(crate) fn waiting_reason(view: &amends::View) -> Option<String> {
    match view {
        amends::View::Whole(saga) => amends_core::status::reason(saga),
        amends::View::Row { row, .. } => row.reason.clone(),
    }
}
