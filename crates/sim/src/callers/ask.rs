//! Asking a node that may not be there, or die before it answers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use amends_engine::{Engine, Refused, View};
use amends_store::Kind;
use tokio::time::sleep;

use crate::event::Event;
use crate::sim::Sim;

/// The longest anybody waits for an answer. Longer than the engine's own limit.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of a question.
pub(crate) enum Asked<T> {
    /// An answer.
    Answer(T),
    /// The node died, or did not answer in time: nobody knows.
    Unclear,
    /// No node is there. Nothing was asked.
    Nobody,
}

/// Asks any node.
pub(crate) async fn ask<T, F>(sim: &Arc<Sim>, question: impl FnOnce(Engine) -> F) -> Asked<T>
where
    F: Future<Output = T>,
{
    let host = {
        let mut state = sim.state();
        let at = state.dice.callers.below(sim.hosts().len());
        sim.hosts()[at].clone()
    };
    let Some((life, engine)) = host.engine() else { return Asked::Nobody };
    tokio::select! {
        biased;
        () = life.end() => Asked::Unclear,
        answer = question(engine) => Asked::Answer(answer),
        () = sleep(PATIENCE) => Asked::Unclear,
    }
}

/// Tells what somebody saw.
pub(crate) fn saw(sim: &Sim, view: &View) {
    match view {
        View::Whole(saga) => sim.record(&Event::Seen(saga.clone())),
        View::Row { row, .. } => {
            sim.record(&Event::SeenRow { saga: row.id.clone(), status: row.status.clone() });
        }
    }
}

/// Why the engine refused, in one word; `None` if it does not know itself.
pub(crate) fn refusal(refused: &Refused) -> Option<&'static str> {
    Some(match refused {
        Refused::UnknownDefinition(_) => "unknown definition",
        Refused::InvalidDefinition(_) => "invalid definition",
        Refused::DefinitionConflict { .. } => "definition conflict",
        Refused::MissingInput(_) => "missing input",
        Refused::Malformed(_) => "malformed",
        Refused::InputConflict(_) => "input conflict",
        Refused::ClaimHeld(_) => "claim held",
        Refused::UnknownSaga(_) => "unknown saga",
        Refused::Core { .. } => "core",
        Refused::Overloaded { .. } => "overloaded",
        Refused::Store(error) => match error.kind {
            Kind::Indeterminate => return None,
            Kind::Unavailable | Kind::Unwritable => "store unavailable",
            Kind::Corrupt | Kind::Refused => "store refused",
        },
    })
}
