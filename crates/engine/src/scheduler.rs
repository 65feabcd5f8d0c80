//! Due work: what is due is claimed in batches, as capacity allows, and what is not due costs nothing.

use std::sync::Arc;
use std::time::Duration;

use amends_core::Time;
use amends_store::Due;
use tokio::sync::OwnedSemaphorePermit;

use crate::lease::Lease;
use crate::node::Node;
use crate::persist::Backoff;
use crate::saga::{Message, Opening, open};

/// Claims what is due, as long as the engine lives.
pub(crate) async fn run(node: Arc<Node>) {
    let mut backoff = Backoff::new(&node);
    loop {
        match claim_all(&node).await {
            Ok(next) => {
                backoff = Backoff::new(&node);
                rest(&node, next).await;
            }
            Err(error) => {
                tracing::warn!("due work cannot be claimed: {error}");
                backoff.pause().await;
            }
        }
    }
}

/// Claims until nothing more is due. Gives when something will be.
async fn claim_all(node: &Arc<Node>) -> Result<Option<Time>, amends_store::Error> {
    if !node.takes_work() {
        return Ok(None);
    }
    let lease = node.lease();
    hand_out_mail(node, &lease).await?;
    loop {
        let next = node.store.next_due().await?;
        if next.is_none_or(|due| due > node.now()) {
            return Ok(next);
        }
        let Some(room) = wait_for_room(node, node.config.limits.due_batch_max).await else { return Ok(None) };
        let due = node.store.claim_due(&lease.stored(), node.now(), room).await?;
        if due.is_empty() {
            // Another node was faster, or the store's clock is behind: look again in a while.
            return Ok(None);
        }
        open_all(node, &lease, due, Opening::Claimed).await;
    }
}

/// Tells sagas in memory that there is mail for them. One that should be here but is not comes back as after a crash.
async fn hand_out_mail(node: &Arc<Node>, lease: &Arc<Lease>) -> Result<(), amends_store::Error> {
    let limit = node.config.limits.due_batch_max;
    for due in node.store.mine(&lease.stored(), limit).await? {
        match node.sagas.get(&due.id) {
            // A full inbox: it hears of it at the next look.
            Some(cell) => drop(cell.tell(Message::Mail)),
            None => drop(open(node, &due.id, lease.clone(), Opening::Recover)),
        }
    }
    Ok(())
}

/// How many may be claimed, once at least one may. `None`: the node takes no work any more.
pub(crate) async fn wait_for_room(node: &Arc<Node>, batch_max: usize) -> Option<usize> {
    loop {
        if !node.takes_work() {
            return None;
        }
        match node.room(batch_max) {
            0 => tokio::time::sleep(NO_ROOM_PAUSE).await,
            room => return Some(room),
        }
    }
}

/// How long a full node waits before it looks again whether it may claim: shorter than anybody would notice, long enough to
/// cost nothing.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(10);

/// Opens sagas that the store made this node's.
pub(crate) async fn open_all(
    node: &Arc<Node>,
    lease: &Arc<Lease>,
    due: Vec<Due>,
    opening: fn(Option<OwnedSemaphorePermit>) -> Opening,
) {
    for Due { id, rowid: _ } in due {
        let place = place(node).await;
        // If it is still here it is on its way out, and comes back by itself.
        let _ = open(node, &id, lease.clone(), opening(place));
    }
}

async fn place(node: &Node) -> Option<OwnedSemaphorePermit> {
    // Never closed; if it were, reading without a place would only be less polite.
    node.openings.clone().acquire_owned().await.ok()
}

/// Sleeps until something is due, as far as the store knew at the last look; until this node itself has made something due; but
/// never for long, since other nodes make things due too. A saga parks for longer than that, so it is not late.
async fn rest(node: &Node, next: Option<Time>) {
    let due = async {
        match next {
            Some(at) => node.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = node.due_now.notified() => {}
        () = due => {}
        () = tokio::time::sleep(node.config.times.poll_every) => {}
    }
}
