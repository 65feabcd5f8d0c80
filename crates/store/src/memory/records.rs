//! Mailboxes, definitions and retention.

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use super::{Letter, Memory};
use crate::ports::{Definitions, Mailbox, Retention};
use crate::{Due, Error, Mail, NodeLease, StoredDefinition};

#[async_trait]
impl Mailbox for Memory {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error> {
        let mut state = self.state();
        let Some(&saga) = state.rowids.get(id) else { return Ok(None) };
        let known = state.mails.iter().find(|(_, letter)| letter.saga == saga && letter.input_id == input_id);
        if let Some((&mail, _)) = known {
            return Ok(Some(mail));
        }
        state.mail_last += 1;
        let mail = state.mail_last;
        let letter = Letter {
            saga,
            input_id: input_id.to_owned(),
            body: body.to_owned(),
            posted_at: now,
            answer: None,
        };
        state.mails.insert(mail, letter);
        let row = &mut state.sagas.get_mut(&saga).expect("invariant: every id has its saga").row;
        if row.owner.is_none() {
            row.due_at = Some(row.due_at.map_or(now, |due| due.min(now)));
        }
        Ok(Some(mail))
    }

    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error> {
        let state = self.state();
        let Some(&saga) = state.rowids.get(id) else { return Ok(Vec::new()) };
        let waiting = state.mails.iter().filter(|(_, letter)| letter.saga == saga && letter.answer.is_none());
        let mails = waiting.take(limit).map(|(&id, letter)| Mail {
            id,
            input_id: letter.input_id.clone(),
            body: letter.body.clone(),
        });
        Ok(mails.collect())
    }

    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error> {
        let state = self.state();
        let mine = state.sagas.iter().filter(|(rowid, saga)| {
            saga.row.owner.as_ref().is_some_and(|(_, epoch)| *epoch == lease.epoch)
                && state.oldest_mail(**rowid).is_some()
        });
        Ok(mine.take(limit).map(|(&rowid, saga)| Due { id: saga.row.id.clone(), rowid }).collect())
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.state().mails.get(&mail).and_then(|letter| letter.answer.clone()))
    }
}

#[async_trait]
impl Definitions for Memory {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        let mut state = self.state();
        let key = (definition.name.clone(), definition.version);
        Ok(match state.definitions.get(&key) {
            Some(known) if known.digest == definition.digest => Ok(false),
            Some(known) => Err(known.clone()),
            None => {
                state.definitions.insert(key, definition);
                Ok(true)
            }
        })
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        Ok(self.state().definitions.values().find(|definition| definition.digest == digest).cloned())
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        let state = self.state();
        let mut versions = state.definitions.values().filter(|d| d.name == name);
        Ok(match version {
            Some(version) => versions.find(|d| d.version == version).cloned(),
            None => versions.next_back().cloned(),
        })
    }

    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error> {
        let state = self.state();
        let rest =
            state.definitions.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        Ok(rest.take(limit).map(|(_, definition)| definition.clone()).collect())
    }
}

#[async_trait]
impl Retention for Memory {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        let mut state = self.state();
        let old = state.sagas.values_mut().filter(|saga| {
            !saga.pruned
                && saga.row.owner.is_none()
                && saga.row.due_at.is_none()
                && saga.row.ended_at.is_some_and(|ended| ended < ended_before)
        });
        let mut pruned = 0;
        for saga in old.take(limit) {
            saga.journal.retain(|written| written.entry.keep);
            saga.pruned = true;
            pruned += 1;
        }
        let answered = state.mails.iter().filter(|(_, l)| l.answer.is_some() && l.posted_at < ended_before);
        let mails: Vec<u64> = answered.map(|(&mail, _)| mail).take(limit.saturating_sub(pruned)).collect();
        for mail in &mails {
            state.mails.remove(mail);
        }
        Ok(pruned + mails.len())
    }
}
