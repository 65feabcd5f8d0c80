//! Retention: journal and payload of what ended long ago are removed, in batches. Ids stay.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::ms;
use crate::node::Node;

/// Removes what is too old, as long as the engine lives.
pub(crate) async fn run(node: Arc<Node>, keep: Duration) {
    loop {
        tokio::time::sleep(node.config.times.prune_every).await;
        if !node.takes_work() {
            continue;
        }
        if let Err(error) = prune(&node, keep).await {
            // What could not be removed now is tried again at the next turn.
            tracing::warn!("old journals cannot be removed: {error}");
        }
    }
}

async fn prune(node: &Node, keep: Duration) -> Result<(), amends_store::Error> {
    let keep_ms = i64::try_from(ms(keep)).unwrap_or(i64::MAX);
    let before = amends_core::Time(node.now().0.saturating_sub(keep_ms));
    loop {
        let pruned = node.store.prune(before, node.config.limits.prune_batch_max).await?;
        if pruned == 0 {
            return Ok(());
        }
        tracing::debug!(sagas = pruned, "removed journals of sagas that ended long ago");
        // Between batches others get their turn.
        tokio::task::yield_now().await;
    }
}
