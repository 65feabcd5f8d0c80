//! Mail, definitions and retention.

use amends_core::{SagaId, Time};
use amends_store::{Definitions, Due, Error, Kind, Mail, Mailbox, NodeLease, Retention, StoredDefinition};
use async_trait::async_trait;
use redis::Value;
use serde::{Deserialize, Serialize};

use super::RedisStore;
use super::library::{ANSWERS, DEFINITIONS, DIGESTS, ENDED, MINE, POST, PRUNE, REGISTER, VERSIONS, WAITING};
use super::words::{Arguments, Words, unreadable};
use super::work::read_due;

/// Mails, definitions or ended sagas that one call looks at.
const PART_MAX: usize = 100;

/// Ended sagas whose journals one call removes: a journal may be long, and the server does nothing else meanwhile.
const PRUNE_MAX: usize = 50;

#[async_trait]
impl Mailbox for RedisStore {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error> {
        let mut arguments = Arguments::default();
        arguments.add(id.as_str()).add(input_id).add(body).time(Some(now));
        let mut words = self.link.write(&POST, &arguments).await?;
        let answer = words.text()?;
        if answer == "none" {
            return Ok(None);
        }
        answer.parse().map(Some).map_err(|_| unreadable(POST.name, "no number of a mail"))
    }

    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error> {
        let mut arguments = Arguments::default();
        arguments.add(id.as_str()).number(limit.min(PART_MAX));
        let mut words = self.link.read(&WAITING, &arguments).await?;
        let mut mails = Vec::new();
        while words.left() > 0 {
            let number = words.number()?;
            mails.push(letter(number, &words.next()?)?);
        }
        Ok(mails)
    }

    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error> {
        let mut arguments = Arguments::default();
        arguments.number(lease.epoch).number(limit.min(PART_MAX * 10));
        let mut words = self.link.read(&MINE, &arguments).await?;
        read_due(&mut words)
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut get = redis::cmd("HGET");
        get.arg(ANSWERS).arg(mail);
        bytes(self.link.ask(get).await?, "the answer to a mail")
    }
}

/// Reads a letter: when, to whom, its input's id, its body, each behind its length.
fn letter(id: u64, mut packed: &[u8]) -> Result<Mail, Error> {
    let broken = || unreadable(&format!("mail {id}"), "something else than a letter");
    let mut take = |size: usize| {
        let (length, rest) = packed.split_at_checked(size)?;
        let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (word, rest) = rest.split_at_checked(length)?;
        packed = rest;
        Some(word.to_vec())
    };
    let words = (take(1), take(2), take(2), take(4));
    let (Some(_), Some(_), Some(input_id), Some(body)) = words else { return Err(broken()) };
    let input_id = String::from_utf8(input_id).map_err(|_| broken())?;
    Ok(Mail { id, input_id, body })
}

fn bytes(value: Value, of: &str) -> Result<Option<Vec<u8>>, Error> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        _ => Err(unreadable(of, "no bytes")),
    }
}

/// A definition as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    name: String,
    version: u64,
    digest: String,
    tree: String,
    created_at: Time,
}

/// Where a definition stands among all: by name, then version, in the order of bytes.
fn field(name: &str, version: u64) -> Vec<u8> {
    let mut field = name.as_bytes().to_vec();
    field.push(0);
    field.extend(version.to_be_bytes());
    field
}

#[async_trait]
impl Definitions for RedisStore {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        let StoredDefinition { name, version, digest, tree, created_at } = definition;
        if name.contains('\0') {
            return Err(Error::new(Kind::Refused, "the name of a definition has no NUL"));
        }
        let (place, digest_new) = (field(&name, version), digest.clone());
        let kept = Kept { name, version, digest, tree, created_at };
        let kept = serde_json::to_vec(&kept).expect("invariant: plain data always encodes");
        let mut arguments = Arguments::default();
        arguments.add(place).add(digest_new.as_str()).add(kept);
        let mut words = self.link.write(&REGISTER, &arguments).await?;
        if words.text()? == "new" {
            return Ok(Ok(true));
        }
        let known = definition_of(&words.next()?)?;
        Ok(if known.digest == digest_new { Ok(false) } else { Err(known) })
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        let mut get = redis::cmd("HGET");
        get.arg(DIGESTS).arg(digest);
        match bytes(self.link.ask(get).await?, "the index of digests")? {
            Some(field) => self.definition_at(&field).await,
            None => Ok(None),
        }
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        if let Some(version) = version {
            return self.definition_at(&field(name, version)).await;
        }
        let (highest, lowest) = (bound(b'[', &field(name, u64::MAX)), bound(b'[', &field(name, 0)));
        let mut range = redis::cmd("ZREVRANGEBYLEX");
        range.arg(VERSIONS).arg(highest).arg(lowest).arg("LIMIT").arg(0).arg(1);
        let mut words = Words::read("the index of definitions", self.link.ask(range).await?)?;
        if words.left() == 0 {
            return Ok(None);
        }
        self.definition_at(&words.next()?).await
    }

    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error> {
        let from = after.map_or(b"-".to_vec(), |(name, version)| bound(b'(', &field(&name, version)));
        let mut range = redis::cmd("ZRANGEBYLEX");
        range.arg(VERSIONS).arg(from).arg("+").arg("LIMIT").arg(0).arg(limit.min(PART_MAX));
        let mut words = Words::read("the index of definitions", self.link.ask(range).await?)?;
        let mut definitions = Vec::new();
        while words.left() > 0 {
            // They are never removed.
            definitions.extend(self.definition_at(&words.next()?).await?);
        }
        Ok(definitions)
    }
}

fn bound(kind: u8, member: &[u8]) -> Vec<u8> {
    [&[kind], member].concat()
}

fn definition_of(bytes: &[u8]) -> Result<StoredDefinition, Error> {
    let kept: Kept = serde_json::from_slice(bytes)
        .map_err(|_| unreadable("a definition", "something else than a definition"))?;
    let Kept { name, version, digest, tree, created_at } = kept;
    Ok(StoredDefinition { name, version, digest, tree, created_at })
}

impl RedisStore {
    async fn definition_at(&self, field: &[u8]) -> Result<Option<StoredDefinition>, Error> {
        let mut get = redis::cmd("HGET");
        get.arg(DEFINITIONS).arg(field);
        let found = bytes(self.link.ask(get).await?, "a definition")?;
        found.map(|found| definition_of(&found)).transpose()
    }
}

#[async_trait]
impl Retention for RedisStore {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        let limit = limit.min(PRUNE_MAX);
        let mut arguments = Arguments::default();
        arguments.time(Some(ended_before)).number(limit);
        let mut words = self.link.read(&ENDED, &arguments).await?;
        let mut ids = Vec::new();
        while words.left() > 0 {
            ids.push(words.id()?);
        }
        let mut arguments = Arguments::default();
        arguments.time(Some(ended_before)).number(limit - ids.len()).number(ids.len());
        for id in &ids {
            arguments.add(id.as_str());
        }
        let mut words = self.link.write_here(&PRUNE, &arguments).await?;
        let (sagas, mails): (usize, usize) = (words.number()?, words.number()?);
        Ok(sagas + mails)
    }
}
