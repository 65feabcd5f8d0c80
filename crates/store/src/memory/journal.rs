//! Submitting and moving sagas, and reading their journals.

use std::collections::HashSet;

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use super::{Claim, Memory, Saga, State, Written};
use crate::ports::Journal;
use crate::{
    Advance, Advanced, Error, Holder, Item, Outcome, Row, Stored, StoredEntry, Submission, Submitted,
};

#[async_trait]
impl Journal for Memory {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let mut state = self.state();
        let mut lost = HashSet::new();
        batch.iter().map(|item| state.item(item, &mut lost)).collect()
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        let state = self.state();
        let written = state.by_id(id).and_then(|saga| saga.journal.iter().find(|w| w.entry.seq == seq));
        Ok(written.map(|w| w.nonce == nonce))
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        let state = self.state();
        Ok(state.by_id(id).map(|saga| Stored {
            row: saga.row.clone(),
            entries: saga.journal.iter().map(|w| w.entry.clone()).collect(),
        }))
    }

    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        let state = self.state();
        let journal = state.by_id(id).map(|saga| saga.journal.as_slice()).unwrap_or_default();
        Ok(journal.iter().filter(|w| w.entry.seq > after).take(limit).map(|w| w.entry.clone()).collect())
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        let mut state = self.state();
        if let Some(saga) = state.sagas.get_mut(&row.rowid) {
            saga.set_row(Row { owner: None, ..row });
        }
        Ok(())
    }
}

impl State {
    /// `lost`: the sagas of which an item of this batch was not committed. What was decided on top of it must not be
    /// committed either, even where somebody else's entries have made the numbers fit.
    fn item(&mut self, item: &Item, lost: &mut HashSet<u64>) -> Outcome {
        let checked = item.check();
        match item {
            Item::Submit(submission) => match checked {
                Ok(()) => Outcome::Submitted(self.submit(submission)),
                Err(error) => Outcome::Failed(error),
            },
            Item::Advance(advance) => {
                let answer = checked.map(|()| match lost.contains(&advance.rowid) {
                    true => Advanced::Conflict,
                    false => self.advance(advance),
                });
                if !matches!(answer, Ok(Advanced::Committed)) {
                    lost.insert(advance.rowid);
                }
                answer.map_or_else(Outcome::Failed, Outcome::Advanced)
            }
        }
    }

    fn submit(&mut self, submission: &Submission) -> Submitted {
        // Whose id it is comes first: a saga that is there already holds its claims itself.
        if let Some(known) = self.by_id(&submission.row.id) {
            return if known.fingerprint == submission.fingerprint {
                Submitted::Same
            } else {
                Submitted::Different
            };
        }
        // A caller's transaction that has committed came first.
        let arrived = self.arrived(submission.row.id.as_str(), &submission.fingerprint);
        if arrived.is_some_and(|(_, is_same)| !is_same) {
            return Submitted::Different;
        }
        if let Some(holder) = self.holder(&submission.claims, 0) {
            return Submitted::Held(Box::new(holder));
        }
        if let Some((number, _)) = arrived {
            self.intake.remove(&number);
        }
        self.rowid_last += 1;
        let rowid = self.rowid_last;
        self.take(&submission.claims, rowid, submission.row.created_at);
        self.rowids.insert(submission.row.id.clone(), rowid);
        let mut saga = Saga {
            row: Row { rowid, seq: 0, ..submission.row.clone() },
            fingerprint: submission.fingerprint.clone(),
            journal: Vec::new(),
            pruned: false,
        };
        saga.append(&submission.entries, submission.nonce);
        self.sagas.insert(rowid, saga);
        Submitted::Created(rowid)
    }

    fn advance(&mut self, advance: &Advance) -> Advanced {
        let rowid = advance.rowid;
        if self
            .sagas
            .get(&rowid)
            .is_none_or(|saga| saga.row.seq != advance.after || saga.row.id != advance.id)
        {
            return Advanced::Conflict;
        }
        if let Some(holder) = self.holder(&advance.take_claims, rowid) {
            return Advanced::Held(Box::new(holder));
        }
        if advance.release_claims {
            self.claims.retain(|_, claim| claim.saga != rowid);
        }
        self.take(&advance.take_claims, rowid, advance.at());
        for (mail, answer) in &advance.mail {
            // The first answer stands: its poster may have read it.
            if let Some(letter) = self.mails.get_mut(mail).filter(|l| l.saga == rowid && l.answer.is_none()) {
                letter.answer = Some(answer.clone());
            }
        }
        // A saga must not be let go with mail in its box that nothing would wake it for.
        let mail_at = self.oldest_mail(rowid).map(|letter| letter.posted_at);
        let saga = self.sagas.get_mut(&rowid).expect("invariant: the saga was found above");
        saga.append(&advance.entries, advance.nonce);
        if let Some(row) = &advance.row {
            let mut row = row.clone();
            if row.owner.is_none() {
                row.due_at = [row.due_at, mail_at].into_iter().flatten().min();
            }
            saga.set_row(row);
        }
        Advanced::Committed
    }

    /// Who holds one of these claims, other than the saga `own`.
    fn holder(&self, claims: &[String], own: u64) -> Option<Holder> {
        claims.iter().find_map(|name| {
            let claim = self.claims.get(name).filter(|claim| claim.saga != own)?;
            let row = self.sagas.get(&claim.saga)?.row.clone();
            Some(Holder { claim: name.clone(), saga: row.id.clone(), since: claim.since, row })
        })
    }

    fn take(&mut self, claims: &[String], rowid: u64, since: Time) {
        for name in claims {
            self.claims.entry(name.clone()).or_insert(Claim { saga: rowid, since });
        }
    }
}

impl Saga {
    fn append(&mut self, entries: &[StoredEntry], nonce: u64) {
        for entry in entries {
            self.row.seq = entry.seq;
            self.journal.push(Written { entry: entry.clone(), nonce });
        }
    }

    /// Takes over what of a row can change. What a saga was submitted with never does.
    fn set_row(&mut self, row: Row) {
        // Retention looks again: whoever wrote a row may have written entries too.
        self.pruned = false;
        let old = &self.row;
        self.row = Row {
            rowid: old.rowid,
            id: old.id.clone(),
            saga: old.saga.clone(),
            definition_version: old.definition_version,
            digest: old.digest.clone(),
            seq: old.seq,
            created_at: old.created_at,
            ..row
        };
    }
}
