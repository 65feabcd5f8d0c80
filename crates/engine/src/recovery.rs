//! Take-over: sagas of nodes whose lease has lapsed, and of this node's own former lives.

use std::sync::Arc;

use crate::node::Node;
use crate::persist::Backoff;
use crate::saga::Opening;
use crate::scheduler::{open_all, wait_for_room};

/// Takes over, as long as the engine lives: at its start, when it has joined anew, and now and then.
pub(crate) async fn run(node: Arc<Node>) {
    let mut backoff = Backoff::new(&node);
    loop {
        match take_over_all(&node).await {
            Ok(()) => {
                backoff = Backoff::new(&node);
                tokio::select! {
                    biased;
                    () = node.joined.notified() => {}
                    () = tokio::time::sleep(node.config.times.take_over_every) => {}
                }
            }
            Err(error) => {
                tracing::warn!("sagas of lapsed nodes cannot be taken over: {error}");
                backoff.pause().await;
            }
        }
    }
}

/// Takes over until nothing is left. Each batch is read and its take-over committed before the next is claimed, so that few
/// sagas are in the same boat as one that kills its engine, and no more are claimed than can be worked on.
async fn take_over_all(node: &Arc<Node>) -> Result<(), amends_store::Error> {
    loop {
        let Some(room) = wait_for_room(node, node.config.limits.take_over_batch_max).await else {
            return Ok(());
        };
        let lease = node.lease();
        let taken = node.store.take_over(&lease.stored(), node.now(), room).await?;
        if taken.is_empty() {
            return Ok(());
        }
        tracing::info!(
            sagas = taken.len(),
            "sagas of a lapsed node, or of this one's former life, are taken over"
        );
        open_all(node, &lease, taken, Opening::TakenOver).await;
        all_read(node).await;
    }
}

/// Waits until no saga is being read.
async fn all_read(node: &Node) {
    let all = u32::try_from(node.config.limits.openings_max.max(1)).unwrap_or(u32::MAX);
    // Never closed.
    drop(node.openings.acquire_many(all).await);
}
