//! One life of a node: an engine, and everything through which it touches the world.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_engine::Engine;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::clock::NodeClock;
use crate::event::{Event, LifeId};
use crate::sim::Sim;

/// One life of a node. Every call of its ports passes here before and after it does anything, so that a dead node does nothing
/// more, and one that stands still neither acts nor hears: to the world outside that is what a stopped process is.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) id: LifeId,
    sim: Arc<Sim>,
    ended: AtomicBool,
    /// Wakes in the order of waiting. A watch channel does not: it draws, and not from the seed.
    ends: Notify,
    still_until: Mutex<Option<Instant>>,
    engine: Mutex<Option<Engine>>,
    pub(crate) clock: Arc<NodeClock>,
}

impl Life {
    pub(crate) fn new(sim: Arc<Sim>, id: LifeId, clock: Arc<NodeClock>) -> Arc<Self> {
        Arc::new(Self {
            id,
            sim,
            ended: AtomicBool::new(false),
            ends: Notify::new(),
            still_until: Mutex::new(None),
            engine: Mutex::new(None),
            clock,
        })
    }

    /// Returns when the node may act: at once, when it has stood still for long enough, or never.
    pub(crate) async fn pass(&self) {
        loop {
            if self.has_ended() {
                return std::future::pending().await;
            }
            let until = *self.still_until.lock().unwrap_or_else(PoisonError::into_inner);
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// The process is stopped for a while, and then goes on as if nothing had been.
    pub(crate) fn stand_still(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut still = self.still_until.lock().unwrap_or_else(PoisonError::into_inner);
        *still = Some(still.map_or(until, |other| other.max(until)));
    }

    /// The engine runs from here on. False: the node died meanwhile.
    pub(crate) fn runs(&self, engine: Engine) -> bool {
        if self.has_ended() {
            engine.crash();
            return false;
        }
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        true
    }

    /// Its engine, while it runs.
    pub(crate) fn engine(&self) -> Option<Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Returns when it has ended.
    pub(crate) async fn end(&self) {
        let mut ends = pin!(self.ends.notified());
        // From here on it is woken: only then is it known whether it came too late.
        ends.as_mut().enable();
        if !self.has_ended() {
            ends.await;
        }
    }

    /// Ends it where it stands. Every task of its engine is dropped; what is on the wire stays there.
    pub(crate) fn crash(&self, how: &'static str) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        self.ends.notify_waiters();
        self.sim.record(&Event::Died { life: self.id, how });
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.crash();
        }
    }
}
