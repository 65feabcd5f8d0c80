//! The handle of an engine, and its life from start to stop.

use std::sync::Arc;
use std::time::Duration;

use amends_participants::Caller;
use amends_store::Store;

use crate::node::{Node, Ports};
use crate::saga::Message;
use crate::steady::Steady;
use crate::{Clock, Config, intake, keeper, recovery, retention, scheduler, unreadable};

/// One engine: a node that drives sagas. Cheap to clone; clones are the same engine.
///
/// When the last clone is dropped without [`Engine::stop`], everything ends where it stands, as in a crash: nothing is lost,
/// and whoever comes next takes the sagas over once the lease has lapsed.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    node: Arc<Node>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.node.halt();
    }
}

/// Why an engine cannot start.
#[derive(Debug, thiserror::Error)]
#[error("the engine cannot start: {0}")]
pub struct StartError(#[source] pub amends_store::Error);

impl Engine {
    /// Starts an engine: begins its lease, and takes over what its former life left behind and what lapsed nodes own. To be
    /// called within a tokio runtime; all its tasks run there.
    ///
    /// # Errors
    /// [`StartError`] if the store does not give it a lease.
    pub async fn start(
        config: Config,
        store: Arc<dyn Store>,
        caller: Arc<dyn Caller>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let clock = Arc::new(Steady::new(clock));
        let lease = keeper::join(&config, &store, &clock).await.map_err(StartError)?;
        tracing::info!(node = config.node, epoch = lease.epoch(), "joined");
        let retention = config.retention;
        let (node, batches) = Node::new(config, Ports { store, caller, clock }, lease);
        node.spawn(batches.run(node.store.clone(), node.meter.clone()));
        node.spawn(keeper::run(node.clone()));
        node.spawn(recovery::run(node.clone()));
        node.spawn(scheduler::run(node.clone()));
        node.spawn(intake::run(node.clone()));
        node.spawn(unreadable::run(node.clone()));
        if let Some(keep) = retention {
            node.spawn(retention::run(node.clone(), keep));
        }
        Ok(Self(Arc::new(Inner { node })))
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.0.node
    }

    /// Stops in order. No new work is taken; calls in flight get up to `grace` to end; then each saga is written back as
    /// nobody's, due when it has something to do, and the lease is ended, so that another node, or the next life of this one,
    /// goes on at once. What has not ended within `grace` is dropped as in a crash, and taken over as after one.
    ///
    /// Nothing depends on it: killed instead, an engine loses nothing.
    pub async fn stop(&self, grace: Duration) {
        let node = self.node();
        node.stop_beginning();
        let until = tokio::time::Instant::now() + grace;
        for cell in node.sagas.cells() {
            // A full inbox: it looks up after its next message anyway.
            drop(cell.tell(Message::Stop));
        }
        while node.sagas.len() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(STOP_LOOK).await;
        }
        let left = node.sagas.len();
        if left > 0 {
            tracing::info!(sagas = left, "not ended within the grace; they are taken over as after a crash");
        }
        let lease = node.lease().stored();
        node.halt();
        match tokio::time::timeout(node.config.times.answer_max, node.store.leave(&lease)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the lease could not be ended; it lapses by itself: {error}"),
            Err(_) => tracing::warn!("the store did not answer; the lease lapses by itself"),
        }
    }

    /// Ends everything where it stands, as a crash would: nothing more is sent or written, the lease is left to lapse. For tests
    /// and simulations.
    pub fn crash(&self) {
        self.node().halt();
    }
}

/// How often a stopping engine looks whether its sagas have left.
const STOP_LOOK: Duration = Duration::from_millis(5);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("node", &self.node().config.node).finish_non_exhaustive()
    }
}
