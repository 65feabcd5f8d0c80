//! A saga's stay in memory, from its entry to its leave, however it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::driver::Gone;
use super::{Cell, Message, Opening, Reply, open, opening};
use crate::lease::Lease;
use crate::node::Node;

/// A saga's whole stay in memory: the task's body.
pub(super) async fn live(
    node: Arc<Node>,
    cell: Arc<Cell>,
    lease: Arc<Lease>,
    inbox: mpsc::Receiver<Message>,
    opening: Opening,
) {
    let presence = Presence { node: node.clone(), cell: cell.clone() };
    // Boxed, for it is large, and a task that is spawned is moved several times on its way to the heap.
    let (gone, inbox) = Box::pin(stay(node, cell, lease, inbox, opening)).await;
    presence.leave(inbox).await;
    match gone {
        Gone::Parked => {}
        Gone::Lost => recover_later(&presence.node, &presence.cell),
    }
}

async fn stay(
    node: Arc<Node>,
    cell: Arc<Cell>,
    lease: Arc<Lease>,
    inbox: mpsc::Receiver<Message>,
    opening: Opening,
) -> (Gone, mpsc::Receiver<Message>) {
    match opening::open(node, cell, lease, inbox, opening).await {
        Ok(mut driver) => (driver.drive().await, driver.into_inbox()),
        Err((gone, inbox)) => (gone, inbox),
    }
}

/// Takes the cell out of the registry when the task ends: by its end, by abort, or by panic.
struct Presence {
    node: Arc<Node>,
    cell: Arc<Cell>,
}

impl Presence {
    /// Leaves in order: what was told it too late is sent elsewhere.
    async fn leave(&self, mut inbox: mpsc::Receiver<Message>) {
        self.node.sagas.leave(&self.cell);
        inbox.close();
        let mut claims_free = false;
        while let Some(message) = inbox.recv().await {
            match message {
                // Whoever asked has gone too, or asks elsewhere now.
                Message::Input { reply, .. } | Message::Submitted { reply, .. } => {
                    drop(reply.send(Reply::Gone))
                }
                // A saga that is let go with mail in its box is due at once (the store sees to that).
                Message::Mail | Message::Stop => {}
                Message::ClaimsFree => claims_free = true,
            }
        }
        if claims_free {
            let _ = open(&self.node, &self.cell.id, self.node.lease(), Opening::Woken);
        }
        if self.cell.claimed.load(Ordering::SeqCst) {
            // If another has come in meanwhile, that one is told instead.
            let _ = open(&self.node, &self.cell.id, self.node.lease(), Opening::Claimed(None));
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.node.sagas.leave(&self.cell);
        self.node.waiters.stir(&self.cell.id);
        if std::thread::panicking() {
            tracing::error!(saga = %self.cell.id, "the task that drives it panicked; it goes on as after a crash");
            recover_later(&self.node, &self.cell);
        }
    }
}

/// Looks after a pause whether a saga that was lost from memory is still this node's, and if so goes on with it as after a
/// crash. That counts as a take-over, so that one that is lost again and again ends before a person.
fn recover_later(node: &Arc<Node>, cell: &Arc<Cell>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (node, id) = (node.clone(), cell.id.clone());
    runtime.spawn(async move {
        tokio::time::sleep(node.random.spread(node.config.times.backoff_max)).await;
        if !node.is_stopping() {
            // If it has come back meanwhile, somebody else had a reason to look.
            let _ = open(&node, &id, node.lease(), Opening::Recover);
        }
    });
}
