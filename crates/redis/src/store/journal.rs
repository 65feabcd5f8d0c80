//! Committing batches, and reading journals.

use std::collections::HashSet;

use amends_core::{SagaId, Time};
use amends_store::{
    Advanced, Error, Holder, Item, Journal, Kind, Outcome, Row, Stored, StoredEntry, Submitted,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use redis::Value;

use super::call::{CommitCall, saga_of};
use super::library::{COMMIT, ENTRIES, ENTRIES_KEY, LOAD, PARK};
use super::words::{Arguments, Words, unreadable};
use super::{RedisStore, encode, library};

/// Items of one call: the server does nothing else while it runs, so that it must be short.
const CALL_ITEMS_MAX: usize = 100;

/// Bytes of the items of one call; a larger item has a call of its own.
const CALL_BYTES_MAX: usize = 1 << 20;

/// Entries that one call looks at.
const ENTRIES_MAX: u64 = 500;

#[async_trait]
impl Journal for RedisStore {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let parts = parts(&batch);
        let mut ids = HashSet::new();
        // Items of one saga take effect in their order, so that parts that share one follow each other.
        let is_shared = parts.len() > 1 && !batch.iter().all(|item| ids.insert(saga_of(item)));
        if !is_shared {
            let none = HashSet::new();
            let answers = join_all(parts.iter().map(|part| self.commit_part(part, &none))).await;
            return answers.into_iter().flatten().collect();
        }
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(batch.len());
        let mut lost = HashSet::new();
        for part in parts {
            let answers = self.commit_part(part, &lost).await;
            for (item, outcome) in part.iter().zip(&answers) {
                if let (Item::Advance(advance), false) = (item, is_committed(outcome)) {
                    lost.insert(advance.id.clone());
                }
            }
            outcomes.extend(answers);
        }
        outcomes
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        // What replicas must have is not said to stand before they have it.
        self.link.settled().await?;
        let mut get = redis::cmd("HGET");
        get.arg(ENTRIES_KEY).arg(encode::field(id, seq));
        match self.link.ask(get).await? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => {
                encode::read_entry(id, seq, &bytes).map(|(_, written)| Some(written == nonce))
            }
            _ => Err(unreadable(&format!("saga {id}"), "an entry that is no bytes")),
        }
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        let mut arguments = Arguments::default();
        arguments.add(id.as_str());
        let mut words = self.link.read(&LOAD, &arguments).await?;
        if words.left() == 0 {
            return Ok(None);
        }
        let mut row = encode::row(id.clone(), &mut words)?;
        row.seq = words.number()?;
        let mut entries = entries(id, &mut words)?;
        entries.sort_unstable_by_key(|entry| entry.seq);
        Ok(Some(Stored { row, entries }))
    }

    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        let mut found = Vec::new();
        let mut from = after.saturating_add(1);
        while found.len() < limit {
            let look = ENTRIES_MAX.min((limit - found.len()) as u64);
            let mut arguments = Arguments::default();
            arguments.add(id.as_str()).number(from).number(look);
            let mut words = self.link.read(&ENTRIES, &arguments).await?;
            if words.left() == 0 {
                break;
            }
            let last: u64 = words.number()?;
            found.append(&mut entries(id, &mut words)?);
            from = from.saturating_add(look);
            if from > last {
                break;
            }
        }
        Ok(found)
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        let written = encode::written(&Row { owner: None, ..row.clone() }, row.seq, &[])?;
        let mut arguments = Arguments::default();
        arguments.add(row.id.as_str()).add(row.rowid.to_be_bytes()).add(written);
        self.link.write(&PARK, &arguments).await.map(drop)
    }
}

/// Entries as functions give them: (number, entry) of each.
fn entries(id: &SagaId, words: &mut Words) -> Result<Vec<StoredEntry>, Error> {
    let mut entries = Vec::with_capacity(words.left() / 2);
    while words.left() > 0 {
        let seq = words.number()?;
        entries.push(encode::read_entry(id, seq, &words.next()?)?.0);
    }
    Ok(entries)
}

impl RedisStore {
    /// One call. `lost`: sagas of which an earlier part was not committed.
    async fn commit_part(&self, part: &[Item], lost: &HashSet<SagaId>) -> Vec<Outcome> {
        let mut call = CommitCall::of(part);
        let checked: Vec<Option<Error>> = part.iter().map(|item| call.add(item, lost).err()).collect();
        let mut words = self.link.write(&COMMIT, &call.finish()).await;
        if words.is_ok() {
            self.link.count_commit(part.len());
        }
        let outcomes = part.iter().zip(checked).map(|(item, refused)| match (refused, &mut words) {
            (Some(error), _) => Outcome::Failed(error),
            (None, Ok(words)) => outcome(item, words).unwrap_or_else(|error| {
                // It was carried out, and what the answer says of this item cannot be read.
                Outcome::Failed(Error::new(Kind::Indeterminate, error.message))
            }),
            (None, Err(error)) => Outcome::Failed(error.clone()),
        });
        outcomes.collect()
    }
}

/// The items of a batch in parts of one call each.
fn parts(batch: &[Item]) -> Vec<&[Item]> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (nth, item) in batch.iter().enumerate() {
        let size = size_of(item);
        if nth > from && (nth - from >= CALL_ITEMS_MAX || bytes + size > CALL_BYTES_MAX) {
            parts.push(&batch[from..nth]);
            (from, bytes) = (nth, 0);
        }
        bytes += size;
    }
    if from < batch.len() {
        parts.push(&batch[from..]);
    }
    parts
}

fn size_of(item: &Item) -> usize {
    match item {
        Item::Submit(submission) => submission.entries.iter().map(|entry| entry.body.len()).sum(),
        Item::Advance(advance) => {
            advance.entries.iter().map(|entry| entry.body.len()).sum::<usize>()
                + advance.mail.iter().map(|(_, answer)| answer.len()).sum::<usize>()
        }
    }
}

fn is_committed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Advanced(Advanced::Committed))
}

/// Reads the answer to one item.
fn outcome(item: &Item, words: &mut Words) -> Result<Outcome, Error> {
    let word = words.text()?;
    Ok(match (item, word.as_str()) {
        (Item::Submit(_), "created") => {
            Outcome::Submitted(Submitted::Created(encode::rowid(&words.next()?)?))
        }
        (Item::Submit(_), "same") => Outcome::Submitted(Submitted::Same),
        (Item::Submit(_), "different") => Outcome::Submitted(Submitted::Different),
        (Item::Submit(_), "held") => Outcome::Submitted(Submitted::Held(holder(words)?)),
        (Item::Advance(_), "committed") => Outcome::Advanced(Advanced::Committed),
        (Item::Advance(_), "conflict") => Outcome::Advanced(Advanced::Conflict),
        (Item::Advance(_), "held") => Outcome::Advanced(Advanced::Held(holder(words)?)),
        (Item::Submit(_) | Item::Advance(_), _) => {
            return Err(unreadable(library::COMMIT.name, "an answer of no item"));
        }
    })
}

fn holder(words: &mut Words) -> Result<Box<Holder>, Error> {
    let claim = words.text()?;
    let since: Time = words.time()?.unwrap_or_default();
    let saga = words.id()?;
    let row = encode::row(saga.clone(), words)?;
    Ok(Box::new(Holder { claim, saga, since, row }))
}
