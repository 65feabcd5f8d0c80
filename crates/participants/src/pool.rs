//! Idle connections to one participant, ready to be used again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::link::Link;

/// A stack: the connection used last is used next, so that those too many grow old and are closed.
pub(crate) struct Pool {
    /// How long a connection may be idle.
    keep_alive: Duration,
    /// How many may be idle at once.
    max: usize,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The oldest in front.
    links: VecDeque<(Instant, Link)>,
    /// Whether a task is closing what grows old.
    sweeping: bool,
}

impl Pool {
    pub(crate) fn new(keep_alive: Duration, max: usize) -> Arc<Self> {
        Arc::new(Self { keep_alive, max, idle: Mutex::default() })
    }

    /// A connection that was open when its last call ended; whether it still is shows in its use.
    pub(crate) fn take(&self) -> Option<Link> {
        let (since, link) = self.lock().links.pop_back()?;
        // Below it lie only older ones; they are swept soon.
        (since.elapsed() < self.keep_alive).then_some(link)
    }

    /// Keeps a connection after its call, if it is good for another one.
    pub(crate) async fn put(self: &Arc<Self>, mut link: Link) {
        if self.keep_alive.is_zero() || !link.is_usable().await {
            return;
        }
        let mut idle = self.lock();
        if idle.links.len() < self.max {
            idle.links.push_back((Instant::now(), link));
        }
        if !idle.sweeping {
            idle.sweeping = true;
            tokio::spawn(sweep(Arc::downgrade(self), self.keep_alive));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().links.len()
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that have grown old, as long as there are any: nobody else would while the participant is not called.
async fn sweep(pool: std::sync::Weak<Pool>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.lock();
        while idle.links.front().is_some_and(|(since, _)| since.elapsed() >= keep_alive) {
            idle.links.pop_front();
        }
        if idle.links.is_empty() {
            idle.sweeping = false;
            return;
        }
    }
}
