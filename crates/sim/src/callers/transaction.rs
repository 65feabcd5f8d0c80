//! A saga that is submitted inside a caller's own transaction: it is there, and waits for its claims.

use std::sync::Arc;

use amends_core::definition::check_input;
use amends_core::{Definition, Jitter, Now, SagaId, Submission, json, status};
use amends_store::{Item, Outcome, Row, StoredEntry};
use serde_json::Value;

use crate::event::Event;
use crate::sim::Sim;

/// Writes what a caller's transaction writes: as an engine would, but for its claims, and nobody's.
pub(crate) async fn submit_in_transaction(
    sim: &Arc<Sim>,
    definition: &Arc<Definition>,
    id: &SagaId,
    input: &Value,
) {
    let now = sim.now();
    let submission = Submission {
        id: id.clone(),
        input: input.clone(),
        accepting: true,
        trace: None,
        epoch: 0,
        who: "transaction".into(),
    };
    let claims = check_input(definition, id, input).expect("invariant: inputs are made to fit");
    let decision =
        amends_core::submit(definition.clone(), submission, claims, Now { at: now, jitter: Jitter::NONE });
    let saga = &decision.after;
    let row = Row {
        rowid: 0,
        id: id.clone(),
        saga: definition.name.clone(),
        definition_version: definition.version,
        digest: definition.digest.clone(),
        status: status::status(saga).as_str().to_owned(),
        business_state: status::business_state(saga),
        seq: saga.seq,
        step: None,
        operation: None,
        error_class: None,
        reason: None,
        contradictions: 0,
        overdue: false,
        created_at: now,
        updated_at: now,
        ended_at: None,
        due_at: Some(now),
        owner: None,
    };
    let submission = amends_store::Submission {
        row,
        entries: decision.entries.iter().map(StoredEntry::encode).collect(),
        claims: Vec::new(),
        fingerprint: fingerprint(&definition.name, input),
        nonce: sim.state().dice.callers.number(),
    };
    let outcome = sim.commit(vec![Item::Submit(submission.clone())]).await.pop();
    if let Some(Outcome::Submitted(outcome)) = outcome {
        sim.record(&Event::Began { life: None, submission: Box::new(submission), outcome });
    }
}

/// What tells two submissions apart. The engine takes any text that differs where definition name or input differ.
fn fingerprint(name: &str, input: &Value) -> String {
    use sha2::{Digest as _, Sha256};
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update([0]);
    hasher.update(json::canonical(input));
    hex::encode(hasher.finalize())
}
