//! The store itself: the memory store, and the lies it tells where a bug is planted.

use amends_core::{Entry, EntryKind, SagaId, Time};
use amends_store::{
    Advance, Advanced, Error, Item, Journal as _, Lists as _, Mailbox as _, Outcome, Retention as _, Stored,
    StoredEntry, Submitted,
};

use crate::event::Event;
use crate::sabotage::Sabotage;
use crate::sim::Sim;

impl Sim {
    /// Commits a batch.
    pub(crate) async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let Some(sabotage) = self.options.sabotage else { return self.memory.commit(batch).await };
        let mut outcomes = Vec::new();
        for item in batch {
            outcomes.push(self.lie(sabotage, item).await);
        }
        outcomes
    }

    async fn truly(&self, item: Item) -> Outcome {
        let mut outcomes = self.memory.commit(vec![item]).await;
        outcomes.pop().expect("invariant: a store answers each item")
    }

    async fn lie(&self, sabotage: Sabotage, item: Item) -> Outcome {
        match (sabotage, item) {
            (Sabotage::StoreDropsCommit, Item::Advance(advance))
                if !advance.entries.is_empty() && self.chance(5) =>
            {
                Outcome::Advanced(Advanced::Committed)
            }
            (Sabotage::StoreForgetsSubmission, Item::Submit(_)) if self.chance(2) => {
                Outcome::Submitted(Submitted::Created(1_000))
            }
            (Sabotage::StoreIgnoresClaims, Item::Submit(mut submission)) => {
                submission.claims.clear();
                self.truly(Item::Submit(submission)).await
            }
            (Sabotage::StoreKeepsClaims, Item::Advance(mut advance)) => {
                advance.release_claims = false;
                self.truly(Item::Advance(advance)).await
            }
            (Sabotage::StoreIgnoresSeq, Item::Advance(advance)) => self.force(advance).await,
            (Sabotage::StoreTakesAnyInput, Item::Submit(submission)) => {
                match self.truly(Item::Submit(submission)).await {
                    Outcome::Submitted(Submitted::Different) => Outcome::Submitted(Submitted::Same),
                    outcome => outcome,
                }
            }
            (Sabotage::StoreWritesAfterEnd, Item::Advance(advance)) => self.write_after_end(advance).await,
            (Sabotage::StoreForgetsDue, Item::Advance(mut advance)) => {
                if let Some(row) = &mut advance.row {
                    row.due_at = None;
                }
                self.truly(Item::Advance(advance)).await
            }
            (_, item) => self.truly(item).await,
        }
    }

    /// Writes an advance whatever came before it.
    async fn force(&self, advance: Advance) -> Outcome {
        match self.truly(Item::Advance(advance.clone())).await {
            Outcome::Advanced(Advanced::Conflict) => {}
            outcome => return outcome,
        }
        let Ok(Some(row)) = self.memory.row(&advance.id).await else {
            return Outcome::Advanced(Advanced::Conflict);
        };
        let renumbered = advance.entries.iter().zip(row.seq + 1..);
        let entries = renumbered.map(|(entry, seq)| StoredEntry { seq, ..entry.clone() }).collect();
        drop(self.truly(Item::Advance(Advance { after: row.seq, entries, ..advance })).await);
        Outcome::Advanced(Advanced::Committed)
    }

    /// Puts an entry behind the last one.
    async fn write_after_end(&self, advance: Advance) -> Outcome {
        let ended = advance.release_claims;
        let outcome = self.truly(Item::Advance(advance.clone())).await;
        if ended && matches!(outcome, Outcome::Advanced(Advanced::Committed)) {
            let after = advance.after + advance.entries.len() as u64;
            let entry = Entry { seq: after + 1, at: self.now(), kind: EntryKind::Overdue };
            let late = Advance {
                after,
                entries: vec![StoredEntry::encode(&entry)],
                row: None,
                mail: Vec::new(),
                release_claims: false,
                ..advance
            };
            drop(self.truly(Item::Advance(late)).await);
        }
        outcome
    }

    /// A saga's row and journal.
    pub(crate) async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        let mut stored = self.memory.load(id).await?;
        if self.options.sabotage == Some(Sabotage::StoreMisreads)
            && let Some(stored) = &mut stored
            && self.chance(3)
        {
            // The first answer is read as one that carries another number.
            for entry in &mut stored.entries {
                let text = String::from_utf8_lossy(&entry.body).replace("\"n1\"", "\"n999\"").into_bytes();
                entry.body = text;
            }
        }
        Ok(stored)
    }

    /// The answer to a mail.
    pub(crate) async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        if self.options.sabotage == Some(Sabotage::StoreAnswersMail) {
            return Ok(Some(br#""done""#.to_vec()));
        }
        self.memory.answer(mail).await
    }

    /// Posts an input to a saga.
    pub(crate) async fn post(&self, id: &SagaId, input_id: &str, body: &[u8]) -> Result<Option<u64>, Error> {
        if self.options.sabotage == Some(Sabotage::StoreDropsMail) {
            return Ok(Some(1_000_000));
        }
        self.memory.post(id, input_id, body, self.now()).await
    }

    /// Removes the journals of what ended long ago, and says of which.
    pub(crate) async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        let (before, limit) = match self.options.sabotage {
            Some(Sabotage::StorePrunesEarly) => (self.now(), limit),
            Some(Sabotage::StoreNeverPrunes) => return Ok(0),
            _ => (ended_before, limit),
        };
        let pruned = self.memory.prune(before, limit).await?;
        if pruned > 0 {
            self.look_for_pruned(ended_before).await?;
        }
        Ok(pruned)
    }

    async fn look_for_pruned(&self, ended_before: Time) -> Result<(), Error> {
        let ended: Vec<(SagaId, usize)> = {
            let state = self.state();
            let sagas = state.truth.sagas.values().filter(|recorded| !recorded.pruned);
            sagas.map(|recorded| (recorded.saga.id.clone(), recorded.stored.len())).collect()
        };
        for (saga, known) in ended {
            if let Some(stored) = self.memory.load(&saga).await?
                && stored.entries.len() < known
            {
                self.record(&Event::Pruned { saga, ended_before, left: stored.entries });
            }
        }
        Ok(())
    }

    /// Whether a planted bug shows itself now: each time but for the first `n`, now and then.
    pub(crate) fn chance(&self, n: u64) -> bool {
        let state = &mut *self.state();
        state.chances += 1;
        state.chances > n && state.dice.store.chance(0.3)
    }
}
