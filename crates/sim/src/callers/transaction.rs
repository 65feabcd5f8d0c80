//! A saga that is begun inside a caller's own transaction: its row is there from the commit on, and the engines find it.

use std::sync::Arc;

use amends_core::{Definition, SagaId};
use amends_store::Lists as _;
use serde_json::Value;
use tokio::time::sleep;

use super::submit::TRIES_MAX;
use crate::event::Event;
use crate::sim::Sim;

/// The definition that a transaction's saga gets: the highest version of the name.
pub(crate) fn highest(sim: &Sim, name: &str) -> Arc<Definition> {
    let known = sim.options.definitions.iter().map(|(definition, _)| definition);
    let highest =
        known.filter(|definition| definition.name == name).max_by_key(|definition| definition.version);
    highest.expect("invariant: a name was drawn from the definitions").clone()
}

/// Commits a transaction that begins a saga. From then on nobody may lose it.
pub(crate) fn commit(sim: &Sim, definition: &Definition, id: &SagaId, input: &Value) {
    match sim.memory.arrive(&definition.name, id.as_str(), &input.to_string()) {
        Ok(_) => sim.record(&Event::Arrived { saga: id.clone() }),
        Err(error) => panic!("invariant: each caller has an id of its own: {error}"),
    }
}

/// Waits until an engine has made a saga of it. False: none did, long after all faults have ended.
pub(crate) async fn is_taken_up(sim: &Arc<Sim>, id: &SagaId) -> bool {
    for _ in 0..TRIES_MAX {
        // What the store holds, whoever could ask it now.
        if sim.memory.row(id).await.is_ok_and(|row| row.is_some()) {
            return true;
        }
        let pause = sim.state().dice.callers.ms(50..=2_000);
        sleep(pause).await;
    }
    false
}
