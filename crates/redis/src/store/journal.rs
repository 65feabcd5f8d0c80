//! Committing batches, and reading journals.

use std::collections::{HashMap, HashSet};

use amends_core::{SagaId, Time};
use amends_store::{
    Advance, Advanced, Error, Holder, Item, Journal, Kind, Outcome, Row, Stored, StoredEntry, Submission,
    Submitted,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use redis::Value;

use super::encode::{self, Packer};
use super::library::{COMMIT, ENTRIES, LOAD, PARK, saga_key};
use super::words::{Arguments, Words, unreadable};
use super::{RedisStore, library};

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
        get.arg(saga_key(id)).arg(seq);
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
        let mut words = self.link.read(&LOAD, &[saga_key(id)], &arguments).await?;
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
            let mut words = self.link.read(&ENTRIES, &[saga_key(id)], &arguments).await?;
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
        let key = saga_key(&row.id);
        let [written, rest] = encode::written(&Row { owner: None, ..row.clone() })?;
        let mut arguments = Arguments::default();
        arguments.add(row.id.as_str()).number(row.rowid).add(written).add(rest);
        self.link.write(&PARK, &[key], &arguments).await.map(drop)
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
        let mut call = CommitCall::default();
        let checked: Vec<Option<Error>> = part.iter().map(|item| call.add(item, lost).err()).collect();
        let (keys, arguments) = call.finish();
        let mut words = self.link.write(&COMMIT, &keys, &arguments).await;
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

fn saga_of(item: &Item) -> &SagaId {
    match item {
        Item::Submit(submission) => &submission.row.id,
        Item::Advance(advance) => &advance.id,
    }
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

/// A call of the commit function while its items are added; `functions/store/commit.lua` says its form.
#[derive(Default)]
struct CommitCall {
    keys: Vec<Vec<u8>>,
    ids: Arguments,
    /// Of each saga, whether a row of it is written over the one there is.
    wants: Vec<u8>,
    places: HashMap<SagaId, usize>,
    claims: Arguments,
    items: Arguments,
}

impl CommitCall {
    /// Adds an item. One that is refused is added as such: what stands on it must not be committed.
    fn add(&mut self, item: &Item, lost: &HashSet<SagaId>) -> Result<(), Error> {
        let is_first = !self.places.contains_key(saga_of(item));
        let place = self.place(saga_of(item));
        let is_advance = matches!(item, Item::Advance(_));
        if is_first && is_advance && lost.contains(saga_of(item)) {
            self.refuse(place);
        }
        let added = item.check().and_then(|()| match item {
            Item::Submit(submission) => self.add_submission(place, submission),
            Item::Advance(advance) => self.add_advance(place, advance),
        });
        if added.is_err() && is_advance {
            self.refuse(place);
        }
        added
    }

    fn add_submission(&mut self, place: usize, submission: &Submission) -> Result<(), Error> {
        let Submission { row, entries, claims, fingerprint, nonce } = submission;
        let given = encode::given(row, fingerprint)?;
        let [row, rest] = encode::written(row)?;
        self.items.add(header(b's', place, claims, entries).0).add(row).add(rest).add(given);
        self.add_claims(claims);
        self.add_entries(entries, *nonce);
        Ok(())
    }

    fn add_advance(&mut self, place: usize, advance: &Advance) -> Result<(), Error> {
        let Advance { id: _, rowid, after, entries, row, release_claims, take_claims, mail, nonce } = advance;
        let row = row.as_ref().map(encode::written).transpose()?;
        let mut header = header(b'a', place, take_claims, entries);
        header.0.extend(count(mail.len()));
        header.0.extend([u8::from(row.is_some()), u8::from(*release_claims)]);
        header.0.extend(rowid.to_be_bytes());
        header.0.extend(after.to_be_bytes());
        header.time(Some(advance.at()));
        self.items.add(header.0);
        if let Some([row, rest]) = row {
            self.wants[place - 1] = b'1';
            self.items.add(row).add(rest);
        }
        for (mail, answer) in mail {
            self.items.number(mail).add(answer.as_slice());
        }
        self.add_claims(take_claims);
        self.add_entries(entries, *nonce);
        Ok(())
    }

    fn add_claims(&mut self, claims: &[String]) {
        for claim in claims {
            self.claims.add(claim.as_bytes());
        }
    }

    fn add_entries(&mut self, entries: &[StoredEntry], nonce: u64) {
        for entry in entries {
            self.items.add(encode::entry(entry, nonce));
        }
    }

    fn refuse(&mut self, place: usize) {
        self.items.add(header(b'x', place, &[], &[]).0);
    }

    /// The place of a saga, counted from 1 as Lua does.
    fn place(&mut self, id: &SagaId) -> usize {
        if let Some(place) = self.places.get(id) {
            return *place;
        }
        self.keys.push(saga_key(id));
        self.ids.add(id.as_str());
        self.wants.push(b'0');
        self.places.insert(id.clone(), self.keys.len());
        self.keys.len()
    }

    /// The keys of the sagas, and the arguments.
    fn finish(self) -> (Vec<Vec<u8>>, Arguments) {
        let mut arguments = self.ids;
        arguments.add(self.wants).number(self.claims.len()).append(self.claims).append(self.items);
        (self.keys, arguments)
    }
}

/// What every item begins with.
fn header(kind: u8, place: usize, claims: &[String], entries: &[StoredEntry]) -> Packer {
    let mut header = Packer::with_capacity(96);
    header.0.push(kind);
    for number in [place, claims.len(), entries.len()] {
        header.0.extend(count(number));
    }
    header
}

fn count(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("invariant: calls are far smaller").to_be_bytes()
}

/// Reads the answer to one item.
fn outcome(item: &Item, words: &mut Words) -> Result<Outcome, Error> {
    let word = words.text()?;
    Ok(match (item, word.as_str()) {
        (Item::Submit(_), "created") => Outcome::Submitted(Submitted::Created(words.number()?)),
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
