//! A caller: submits a saga until it is acknowledged, and then does what callers do.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{Definition, SagaId};
use amends_engine::{Refused, Start};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::ask::{refusal, saw};
use super::transaction;
use super::{Asked, ask};
use crate::definitions::input;
use crate::event::{Event, Told};
use crate::sim::Sim;

/// How often a caller tries before it gives up: longer than any fault lasts.
pub(super) const TRIES_MAX: usize = 400;

/// The life of one caller, with one saga.
pub(crate) async fn caller(sim: Arc<Sim>, number: usize) {
    let under_way = sim.under_way();
    let (definition, input, wait, in_transaction, asks_too) = {
        let mut state = sim.state();
        let dice = &mut state.dice.callers;
        let drawn = dice.pick(&sim.options.definitions).0.clone();
        let in_transaction = dice.chance(sim.options.callers.transaction);
        let definition = if in_transaction { transaction::highest(&sim, &drawn.name) } else { drawn };
        let drawn = input(&definition, dice);
        let input = sim.options.input.clone().unwrap_or(drawn);
        let longest = u64::try_from(sim.options.chaos.as_millis()).unwrap_or(u64::MAX) / 2;
        // Whoever has committed it may ask for it by the API too.
        (definition, input, dice.ms(0..=longest), in_transaction, in_transaction && dice.chance(0.5))
    };
    let id = SagaId::new(format!("{}/{number}", definition.name)).expect("invariant: a name makes an id");
    sim.state().pinned.insert(id.clone(), definition.clone());
    if sim.options.sagas > 1 {
        sleep(wait).await;
    }
    if in_transaction {
        transaction::commit(&sim, &definition, &id, &input);
    }
    let acknowledged = if in_transaction && !asks_too {
        transaction::is_taken_up(&sim, &id).await
    } else {
        submit(&sim, &definition, &id, &input).await
    };
    drop(under_way);
    if acknowledged {
        afterwards(&sim, &definition, &id, &input).await;
    }
}

/// Submits until it is acknowledged, or refused for good.
async fn submit(sim: &Arc<Sim>, definition: &Definition, id: &SagaId, input: &Value) -> bool {
    for _ in 0..TRIES_MAX {
        match submit_once(sim, definition, id, input).await {
            Some(Told::Created | Told::Known) => return true,
            Some(Told::OtherInput) => return false,
            Some(Told::Refused(_) | Told::Unclear) | None => {}
        }
        let pause = sim.state().dice.callers.ms(50..=2_000);
        sleep(pause).await;
    }
    false
}

/// Submits once. `None`: nobody was there.
async fn submit_once(sim: &Arc<Sim>, definition: &Definition, id: &SagaId, input: &Value) -> Option<Told> {
    let start = Start {
        saga: definition.name.clone(),
        version: Some(definition.version),
        id: id.clone(),
        input: input.clone(),
        trace: None,
        who: "caller".into(),
    };
    let asked = ask(sim, |engine| async move { engine.submit(start).await }).await;
    let told = match asked {
        Asked::Nobody => return None,
        Asked::Unclear => Told::Unclear,
        Asked::Answer(Ok(started)) => {
            saw(sim, &started.view);
            if started.created { Told::Created } else { Told::Known }
        }
        Asked::Answer(Err(Refused::InputConflict(_))) => Told::OtherInput,
        Asked::Answer(Err(refused)) => refusal(&refused).map_or(Told::Unclear, Told::Refused),
    };
    sim.record(&Event::Submitted {
        saga: id.clone(),
        name: definition.name.clone(),
        input: input.clone(),
        told: told.clone(),
    });
    Some(told)
}

/// What a caller does with a saga it knows to be durable.
async fn afterwards(sim: &Arc<Sim>, definition: &Definition, id: &SagaId, input: &Value) {
    let habits = sim.options.callers;
    let draw = |chance: f64| sim.state().dice.callers.chance(chance);
    if draw(habits.cancel) {
        let pause = sim.state().dice.callers.ms(0..=3_000);
        sleep(pause).await;
        super::people::cancel(sim, id).await;
    }
    if draw(0.3) {
        let asked = ask(sim, |engine| {
            let id = id.clone();
            async move { engine.wait(&id, Duration::from_secs(3)).await }
        });
        if let Asked::Answer(Ok(view)) = asked.await {
            saw(sim, &view);
        }
    }
    while draw(habits.resubmit) && !sim.is_calm() {
        let (pause, other) = {
            let mut state = sim.state();
            (state.dice.callers.ms(0..=10_000), state.dice.callers.chance(0.4))
        };
        sleep(pause).await;
        let mut input = input.clone();
        if other && let Value::Object(members) = &mut input {
            members.insert("other".into(), json!(1));
        }
        submit_once(sim, definition, id, &input).await;
    }
}
