//! Submissions as callers' transactions leave them, in memory: what engines are tested with.

use amends_core::{SagaId, Time, json};
use async_trait::async_trait;
use serde_json::Value;

use super::{Memory, State};
use crate::intake::{Arrival, Backlog, Intake, Verdict};
use crate::{Error, Kind};

/// A row of the intake.
#[derive(Debug)]
pub(super) struct Waiting {
    arrival: Arrival,
    fingerprint: String,
    /// `None`: refused.
    due_at: Option<Time>,
    reason: Option<String>,
}

impl Memory {
    /// Puts a row in, as a caller's transaction does by its commit. True: it is new; false: it was known, with the same definition name and
    /// input.
    ///
    /// # Errors
    /// [`Kind::Refused`] if the id is known with others, or the input is no JSON.
    pub fn arrive(&self, saga: &str, id: &str, input: &str) -> Result<bool, Error> {
        let refused = |why: String| Error::new(Kind::Refused, why);
        let tree = check(saga, id, input).map_err(refused)?;
        let fingerprint = json::fingerprint(saga, &tree);
        let mut state = self.state();
        let known = state.sagas.values().find(|saga| saga.row.id.as_str() == id);
        if known.is_some_and(|saga| saga.fingerprint == fingerprint) {
            return Ok(false);
        }
        let told = state.intake.values().find(|row| row.arrival.id == id && row.due_at.is_none());
        if let Some(reason) = told.and_then(|row| row.reason.clone()) {
            return Err(refused(format!("{id} was submitted before, and refused: {reason}")));
        }
        let waiting = state.intake.values().find(|row| row.arrival.id == id).map(|row| &row.fingerprint);
        let known = waiting.or_else(|| {
            let saga = state.sagas.values().find(|saga| saga.row.id.as_str() == id);
            saga.map(|saga| &saga.fingerprint)
        });
        match known {
            Some(known) if *known == fingerprint => return Ok(false),
            Some(_) => return Err(refused(format!("{id} exists with another definition or input"))),
            None => {}
        }
        state.arrive(saga, id, input, fingerprint);
        drop(state);
        self.came.notify_one();
        Ok(true)
    }

    /// Puts a row in as a transaction does that sees nothing of what has come since it began: it is checked against nothing.
    pub fn arrive_unseeing(&self, saga: &str, id: &str, input: &str) {
        self.state().arrive(saga, id, input, String::new());
        self.came.notify_one();
    }
}

impl State {
    fn arrive(&mut self, saga: &str, id: &str, input: &str, fingerprint: String) {
        self.intake_last += 1;
        let number = self.intake_last;
        let arrival = Arrival {
            number,
            saga: saga.to_owned(),
            id: id.to_owned(),
            input: input.to_owned(),
            by: "memory".to_owned(),
            tries: 0,
        };
        let row = Waiting { arrival, fingerprint, due_at: Some(Time(i64::MIN)), reason: None };
        self.intake.insert(number, row);
    }
}

/// As a database's own checks.
fn check(saga: &str, id: &str, input: &str) -> Result<Value, String> {
    if !amends_core::definition::is_name(saga) {
        return Err(format!("{saga:?} is no name of a definition"));
    }
    SagaId::new(id).map_err(|e| e.to_string())?;
    if input.len() > Arrival::INPUT_BYTES_MAX {
        return Err(format!("the input has more than {} bytes", Arrival::INPUT_BYTES_MAX));
    }
    let tree = serde_json::from_str(input).map_err(|e| format!("the input is no JSON: {e}"))?;
    if !json::can_be_kept(&tree) || input.contains(json::NAME_RESERVED) {
        return Err("the input is nested too deeply, or has a reserved name".to_owned());
    }
    if !json::has_distinct_names(input) {
        return Err("the input has two members of the same name".to_owned());
    }
    Ok(tree)
}

impl State {
    /// Whether a row that waits is for this id: its number, and whether it is of the same submission.
    pub(super) fn arrived(&self, id: &str, fingerprint: &str) -> Option<(u64, bool)> {
        let mut rows = self.intake.iter().filter(|(_, row)| row.arrival.id == id && row.due_at.is_some());
        rows.next().map(|(number, row)| (*number, row.fingerprint == fingerprint))
    }
}

#[async_trait]
impl Intake for Memory {
    async fn take(&self, now: Time, hold_ms: u64, limit: usize) -> Result<Vec<Arrival>, Error> {
        let mut state = self.state();
        let due = state.intake.values_mut().filter(|row| row.due_at.is_some_and(|due| due <= now));
        let taken = due.take(limit).map(|row| {
            row.due_at = Some(now.plus_ms(hold_ms));
            row.arrival.clone()
        });
        Ok(taken.collect())
    }

    async fn settle(&self, now: Time, verdicts: Vec<(u64, Verdict)>) -> Result<(), Error> {
        let mut state = self.state();
        for (number, verdict) in verdicts {
            match verdict {
                Verdict::Adopted => drop(state.intake.remove(&number)),
                Verdict::PutOff { reason, again_ms } => {
                    if let Some(row) = state.intake.get_mut(&number) {
                        (row.due_at, row.reason) = (Some(now.plus_ms(again_ms)), Some(reason));
                        row.arrival.tries += 1;
                    }
                }
                Verdict::Refused { reason } => {
                    if let Some(row) = state.intake.get_mut(&number) {
                        (row.due_at, row.reason) = (None, Some(reason));
                    }
                }
            }
        }
        Ok(())
    }

    async fn retry(&self, now: Time, saga: &str) -> Result<(), Error> {
        let mut state = self.state();
        let rows = state.intake.values_mut().filter(|row| row.arrival.saga == saga && row.arrival.tries > 0);
        for row in rows.filter(|row| row.due_at.is_some()) {
            row.due_at = Some(now);
        }
        Ok(())
    }

    async fn backlog(&self) -> Result<Backlog, Error> {
        let state = self.state();
        let count = |is: fn(&Waiting) -> bool| state.intake.values().filter(|row| is(row)).count() as u64;
        let mut told: Vec<&Waiting> = state.intake.values().filter(|row| row.reason.is_some()).collect();
        told.sort_by_key(|row| row.due_at.is_some());
        let example = told.first().map(|row| {
            (
                row.arrival.id.clone(),
                row.reason.clone().expect("invariant: only those with a reason are left"),
            )
        });
        Ok(Backlog {
            waiting: count(|row| row.due_at.is_some()),
            put_off: count(|row| row.due_at.is_some() && row.arrival.tries > 0),
            refused: count(|row| row.due_at.is_none()),
            example,
        })
    }

    async fn knock(&self) {
        self.came.notified().await;
    }
}
