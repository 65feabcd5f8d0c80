//! Keeps the node's lease alive; when it lapses, drops everything and joins anew.

use std::sync::Arc;

use amends_store::{Error, Store};
use tokio::time::sleep;

use crate::Config;
use crate::lease::{Lease, ms};
use crate::node::Node;
use crate::persist::Backoff;
use crate::steady::Steady;

/// Begins a lease.
///
/// # Errors
/// The store's.
pub(crate) async fn join(
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &Arc<Steady>,
) -> Result<Lease, Error> {
    let asked_ms = clock.running_ms();
    let stored = store.join(&config.node, ms(config.times.lease_ttl), clock.now()).await?;
    Ok(Lease::begin(stored, clock.clone(), asked_ms, Node::lease_lasts(config)))
}

/// Renews the lease as long as the engine lives. It has a task of its own, so that nothing that is slow makes it late.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        keep(&node, &node.lease()).await;
        lapsed(&node).await;
    }
}

/// Returns when the lease has lapsed.
async fn keep(node: &Node, lease: &Lease) {
    let ttl = node.config.times.lease_ttl;
    let mut backoff = Backoff::new(node);
    sleep(ttl / 3).await;
    while lease.holds() {
        let asked_ms = node.clock.running_ms();
        let held = lease.stored();
        let renewing = node.store.renew(&held, ms(ttl), node.now());
        // A store that does not answer must not keep this task from noticing that the lease is over.
        let renewed = tokio::time::timeout(lease.left(), renewing).await;
        match renewed {
            Ok(Ok(Some(stored))) => {
                lease.renewed(stored, asked_ms, Node::lease_lasts(&node.config));
                backoff = Backoff::new(node);
                sleep(ttl / 3).await;
            }
            Ok(Ok(None)) => {
                tracing::warn!(epoch = lease.epoch(), "the store says that this node's lease is over");
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!("the node's lease cannot be renewed: {error}");
                backoff.pause().await;
            }
            Err(_) => tracing::warn!("the store did not answer before the node's lease was over"),
        }
    }
}

/// Nothing of what is in memory may be acted on any more. What it was doing counts as unknown to whoever takes it over, and
/// that may well be this node.
async fn lapsed(node: &Arc<Node>) {
    node.meter.lease_lapses.add();
    node.lease().give_up();
    let dropped = node.sagas.len();
    node.sagas.abort_all();
    tracing::warn!(
        sagas = dropped,
        "the node's lease lapsed: its sagas were dropped from memory; it joins anew"
    );
    let mut backoff = Backoff::new(node);
    loop {
        match join(&node.config, &node.store, &node.clock).await {
            Ok(lease) => {
                tracing::info!(epoch = lease.epoch(), "joined anew");
                node.joined_anew(lease);
                return;
            }
            Err(error) => {
                tracing::warn!("the node cannot join: {error}");
                backoff.pause().await;
            }
        }
    }
}
