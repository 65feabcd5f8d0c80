//! A host: it starts a new engine whenever the last one has ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_engine::Engine;
use tokio::time::sleep;

use super::Life;
use crate::clock::NodeClock;
use crate::event::LifeId;
use crate::participants::Wire;
use crate::sabotage::Sabotage;
use crate::sim::Sim;
use crate::store::Port;

/// Where a node's lives follow each other.
#[derive(Debug)]
pub(crate) struct Host {
    node: u8,
    life: Mutex<Option<Arc<Life>>>,
}

impl Host {
    pub(crate) fn new(node: u8) -> Self {
        Self { node, life: Mutex::new(None) }
    }

    /// The life it is in, also one whose engine has not started yet.
    pub(crate) fn life(&self) -> Option<Arc<Life>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its engine, if one runs.
    pub(crate) fn engine(&self) -> Option<(Arc<Life>, Engine)> {
        let life = self.life()?;
        let engine = life.engine()?;
        Some((life, engine))
    }

    fn set(&self, life: Option<Arc<Life>>) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = life;
    }

    /// Stops its engine in order, if one runs.
    pub(crate) async fn stop(&self, sim: &Sim, grace: Duration) {
        let Some((life, engine)) = self.engine() else { return };
        tokio::select! {
            biased;
            () = life.end() => {}
            () = engine.stop(grace) => {
                sim.state().tally.stops += 1;
                life.crash("stops");
            }
        }
    }
}

/// Starts one engine after another, for as long as the world lasts.
pub(crate) async fn supervise(sim: Arc<Sim>, host: Arc<Host>) {
    for number in 1.. {
        let (seed, wrong_by_ms) = {
            let mut state = sim.state();
            let error = sim.options.clock_error_ms;
            let wrong = i64::try_from(state.dice.nodes.within(0..=2 * error)).unwrap_or(0);
            (state.dice.nodes.number(), wrong - i64::try_from(error).unwrap_or(0))
        };
        let stands_still = sim.options.sabotage == Some(Sabotage::LeaseLastsForEver);
        let clock = Arc::new(NodeClock::new(sim.began(), wrong_by_ms, stands_still));
        let life = Life::new(sim.clone(), LifeId { node: host.node, number }, clock.clone());
        host.set(Some(life.clone()));
        let name = char::from(b'a' + host.node).to_string();
        let config = sim.options.config(&name, seed, sim.is_calm());
        let store = Arc::new(Port::new(sim.clone(), life.clone()));
        let wire = Arc::new(Wire::new(sim.clone(), life.clone()));
        let started = tokio::select! {
            biased;
            () = life.end() => None,
            started = Engine::start(config, store, wire, clock) => started.ok(),
        };
        if let Some(engine) = started
            && life.runs(engine)
        {
            sim.note(format_args!("{} runs", life.id));
            life.end().await;
        } else {
            life.crash("does not start");
        }
        host.set(None);
        let pause = {
            let mut state = sim.state();
            let longest = if state.dice.nodes.chance(0.2) { 8_000 } else { 800 };
            state.dice.nodes.ms(0..=longest)
        };
        sleep(if sim.is_calm() { Duration::from_millis(10) } else { pause }).await;
    }
}
