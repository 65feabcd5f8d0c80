//! A batch of items, as one transaction.

use std::sync::atomic::Ordering;

use amends_store::batch::decide;
use amends_store::{Item, Outcome, Submitted};

use crate::MySqlStore;
use crate::look::{Looking, NEW};
use crate::transaction::{Races, Undone, attempt};
use crate::write::texts;

impl MySqlStore {
    /// Commits a batch: all its items that can be, or none.
    pub(crate) async fn commit_batch(&self, batch: &[Item]) -> Vec<Outcome> {
        if batch.is_empty() {
            return Vec::new();
        }
        let mut races = Races::new();
        let error = loop {
            match self.try_batch(batch).await {
                Ok(outcomes) => {
                    self.commits.fetch_add(1, Ordering::Relaxed);
                    self.items.fetch_add(u64::try_from(batch.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
                    return outcomes;
                }
                Err(Undone::Race(error)) => match races.again(&error).await {
                    Ok(()) => {}
                    Err(error) => break error,
                },
                Err(Undone::Failed(error)) => break error,
                Err(Undone::Unknown(error, session)) => {
                    self.unsure.add(session);
                    break error;
                }
            }
        };
        self.pool.health.note(&error);
        vec![Outcome::Failed(error); batch.len()]
    }

    async fn try_batch(&self, batch: &[Item]) -> Result<Vec<Outcome>, Undone> {
        let looking = Looking::at(batch);
        let ((outcomes, creates, step), answers) =
            attempt(&self.pool, looking.script(), |answers, limits| {
                let look = looking.read(&answers)?;
                let (outcomes, writes) = decide(batch, look, &self.pool.health.takes_work(), u64::MAX);
                let texts = texts(&writes, limits)?;
                Ok(((outcomes, !writes.sagas.is_empty(), limits.step), texts))
            })
            .await?;
        // They are inserted first.
        let first = answers.first().filter(|_| creates).map_or(0, |answer| answer.number);
        Ok(outcomes.into_iter().map(|outcome| numbered(outcome, first, step)).collect())
    }
}

/// With the numbers that the server gave to new sagas, instead of those that stood for them.
fn numbered(outcome: Outcome, first: u64, step: u64) -> Outcome {
    let number = |number: u64| match number.checked_sub(NEW) {
        Some(place) => first.saturating_add(place.saturating_mul(step)),
        None => number,
    };
    match outcome {
        Outcome::Submitted(Submitted::Created(rowid)) => {
            Outcome::Submitted(Submitted::Created(number(rowid)))
        }
        Outcome::Submitted(Submitted::Held(mut holder)) => {
            holder.row.rowid = number(holder.row.rowid);
            Outcome::Submitted(Submitted::Held(holder))
        }
        Outcome::Advanced(amends_store::Advanced::Held(mut holder)) => {
            holder.row.rowid = number(holder.row.rowid);
            Outcome::Advanced(amends_store::Advanced::Held(holder))
        }
        other @ (Outcome::Submitted(Submitted::Same | Submitted::Different)
        | Outcome::Advanced(amends_store::Advanced::Committed | amends_store::Advanced::Conflict)
        | Outcome::Failed(_)) => other,
    }
}
