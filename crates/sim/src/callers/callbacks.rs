//! Participants that report an outcome: more than once, in any order, until somebody takes it.

use std::sync::Arc;
use std::time::Duration;

use amends_core::Evidence;
use tokio::time::sleep;

use super::{Asked, ask};
use crate::event::Event;
use crate::participants::Message;
use crate::sim::Sim;

/// How often a participant tries to get rid of a report.
const TRIES_MAX: usize = 30;

/// Reports an outcome, after a while, once or more.
pub(crate) fn report(sim: &Arc<Sim>, message: &Message, evidence: Evidence) {
    let copies = {
        let mut state = sim.state();
        let dice = &mut state.dice.callers;
        let copies = if dice.chance(0.3) { 2 } else { 1 };
        (0..copies)
            .map(|_| {
                let longest = if dice.chance(0.2) { 20_000 } else { 500 };
                (dice.ms(0..=longest), dice.below(3))
            })
            .collect::<Vec<_>>()
    };
    for (after, event) in copies {
        let (sim, message, evidence) = (sim.clone(), message.clone(), evidence.clone());
        let under_way = sim.under_way();
        tokio::spawn(async move {
            sleep(after).await;
            deliver(&sim, &message, &evidence, &format!("event {event}")).await;
            drop(under_way);
        });
    }
}

async fn deliver(sim: &Arc<Sim>, message: &Message, evidence: &Evidence, event: &str) {
    for _ in 0..TRIES_MAX {
        let (key, event, evidence) = (message.key.clone(), event.to_owned(), evidence.clone());
        let done = matches!(evidence, Evidence::Done { .. });
        let asked = ask(sim, |engine| async move { engine.callback(&key, &event, evidence).await }).await;
        match asked {
            Asked::Answer(Ok(())) => {
                sim.record(&Event::Reported { saga: message.saga.clone(), op: message.op, done });
                return;
            }
            Asked::Answer(Err(refused)) => sim.note(format_args!("callback {}: {refused}", message.key)),
            Asked::Unclear | Asked::Nobody => {}
        }
        sleep(Duration::from_secs(2)).await;
    }
}
