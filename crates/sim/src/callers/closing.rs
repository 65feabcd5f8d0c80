//! The end of what machines may not drive: a person closes it, and its claims are free.

use std::sync::Arc;

use amends_core::{PersonAction, SagaId, Status, Time, status};
use amends_engine::View;
use amends_store::{Item, Journal as _, Outcome, Row, StoredEntry, Submission, Submitted};
use tokio::time::sleep;

use super::ask::saw;
use super::people::{LOOK_AGAIN, act};
use super::{Asked, ask};
use crate::event::Event;
use crate::sim::Sim;

/// How often a person looks before giving up: a call or a verification may be under way each time.
const LOOKS_MAX: usize = 30;

/// Lets a person close every saga that is dead or unknown.
pub(crate) async fn close_all(sim: &Arc<Sim>) {
    let open: Vec<SagaId> = {
        let state = sim.state();
        let sagas = state.truth.sagas.values().filter(|recorded| recorded.saga.ended.is_none());
        let needs_person = sagas.filter(|recorded| match status::status(&recorded.saga) {
            Status::Dead | Status::Unknown => true,
            Status::Accepting
            | Status::Running
            | Status::Compensating
            | Status::Completed
            | Status::Compensated
            | Status::Resolved => false,
        });
        needs_person.map(|recorded| recorded.saga.id.clone()).collect()
    };
    for saga in open {
        if let Err(why) = close(sim, &saga).await {
            sim.record(&Event::CannotClose { saga, why });
        }
    }
}

async fn close(sim: &Arc<Sim>, id: &SagaId) -> Result<(), String> {
    let mut why = "nobody answered".to_owned();
    for _ in 0..LOOKS_MAX {
        let asked = ask(sim, |engine| {
            let id = id.clone();
            async move { engine.saga(&id).await }
        });
        match asked.await {
            Asked::Answer(Ok(view)) => {
                saw(sim, &view);
                match view {
                    View::Whole(saga) if saga.ended.is_some() => return Ok(()),
                    View::Whole(saga) => match act(sim, id, Some(saga.seq), PersonAction::Close).await {
                        Ok(View::Whole(saga)) if saga.ended.is_some() => return Ok(()),
                        Ok(_) => why = "it was closed, and has not ended".to_owned(),
                        Err(refused) => {
                            why =
                                refused.map_or_else(|| "no answer".to_owned(), |refused| refused.to_string());
                        }
                    },
                    View::Row { why: gone, .. } => return Err(gone),
                }
            }
            Asked::Answer(Err(refused)) => why = refused.to_string(),
            Asked::Unclear | Asked::Nobody => {}
        }
        sleep(LOOK_AGAIN).await;
    }
    Err(why)
}

/// Tries to take every claim that was ever taken: with no saga open, all of them must be free.
pub(crate) async fn try_claims(sim: &Arc<Sim>) {
    let (claims, template): (Vec<String>, Option<(Row, Vec<StoredEntry>)>) = {
        let state = sim.state();
        let sagas = || state.truth.sagas.values();
        if sagas().any(|recorded| recorded.saga.ended.is_none()) {
            return;
        }
        let mut claims: Vec<String> = sagas().flat_map(|recorded| recorded.saga.claims.to_vec()).collect();
        claims.sort_unstable();
        claims.dedup();
        (claims, sagas().next().map(|recorded| (recorded.row.clone(), recorded.stored.clone())))
    };
    let Some((row, entries)) = template else { return };
    for (number, claim) in claims.into_iter().enumerate() {
        // Never driven by anybody: only whether it can begin is of interest.
        let row = Row {
            id: SagaId::new(format!("claim/{number}")).expect("invariant: an id"),
            owner: None,
            due_at: None,
            ended_at: Some(Time(0)),
            ..row.clone()
        };
        let submission = Submission {
            row,
            entries: entries[..1].to_vec(),
            claims: vec![claim.clone()],
            fingerprint: "claim".to_owned(),
            nonce: 0,
        };
        let outcome = sim.memory.commit(vec![Item::Submit(submission)]).await.pop();
        if let Some(Outcome::Submitted(Submitted::Held(holder))) = outcome {
            sim.record(&Event::ClaimStuck { claim, holder: holder.saga });
        }
    }
}
