//! Rows and entries as bytes.
//!
//! A row is what the functions have to know of it, packed as `functions/store/plan.lua` says, and behind that what they keep unread. What a
//! saga was submitted with is its entry 0.

use std::borrow::Cow;

use amends_core::{SagaId, Time};
use amends_store::{DeadGroup, Error, Kind, Row, StoredEntry};
use serde::{Deserialize, Serialize};

use super::words::{Words, unreadable};

/// What of a row never changes.
#[derive(Serialize, Deserialize)]
struct Fixed<'a> {
    definition_version: u64,
    digest: Cow<'a, str>,
}

/// What the functions need not know. What is nothing is left out: rows are written often.
#[derive(Serialize, Deserialize)]
struct Rest<'a> {
    business_state: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_class: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "is_default")]
    contradictions: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    overdue: bool,
    updated_at: Time,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A row as engines send it, and as it is stored if no mail waits: what `read_row` in `functions/store/plan.lua` reads, and its rest. `seq` is that
/// of the last entry with it; `claims` are those that it holds.
pub(super) fn written(row: &Row, seq: u64, claims: &[String]) -> Result<Vec<u8>, Error> {
    let rest = Rest {
        business_state: Cow::Borrowed(&row.business_state),
        step: row.step.as_deref().map(Cow::Borrowed),
        operation: row.operation.as_deref().map(Cow::Borrowed),
        error_class: row.error_class.as_deref().map(Cow::Borrowed),
        reason: row.reason.as_deref().map(Cow::Borrowed),
        contradictions: row.contradictions,
        overdue: row.overdue,
        updated_at: row.updated_at,
    };
    let (node, epoch) = match &row.owner {
        Some((node, epoch)) => (node.as_str(), Some(*epoch)),
        None => ("", None),
    };
    let dead = if row.status == Row::DEAD { dead_member(row)? } else { Vec::new() };
    let mut class = Packer::with_capacity(80);
    class.short(epoch.map_or_else(String::new, |epoch| epoch.to_string()).as_bytes());
    class.long(word(node)?.as_bytes());
    // Not pruned: whoever writes a row may have written entries too.
    class.0.extend(if row.contradictions > 0 { b"01" } else { b"00" });
    class.long(word(&row.status)?.as_bytes()).long(word(&row.saga)?.as_bytes()).long(&dead);
    let mut packed = Packer::with_capacity(400);
    packed.0.extend(0_u32.to_be_bytes());
    packed.longer(&held(claims));
    packed.time(row.due_at).time(row.ended_at).long(&class.0);
    packed.short(seq.to_string().as_bytes());
    packed.0.extend(json(&rest));
    Ok(packed.0)
}

/// Claims as a row names them: each once.
fn held(claims: &[String]) -> Vec<u8> {
    let mut held = Packer::with_capacity(0);
    for (nth, claim) in claims.iter().enumerate() {
        if !claims[..nth].contains(claim) {
            held.long(claim.as_bytes());
        }
    }
    held.0
}

/// How a claim of a saga is noted: since when, and whose it is.
pub(super) fn hold(since: Time, id: &SagaId) -> Vec<u8> {
    let mut packed = Packer::with_capacity(64);
    packed.time(Some(since)).long(id.as_str().as_bytes());
    packed.0
}

/// What a saga's head holds: its number, and its last entry.
pub(super) fn head(rowid: u64, seq: u64) -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&rowid.to_be_bytes());
    head[8..].copy_from_slice(&seq.to_be_bytes());
    head
}

/// The number in a saga's head.
pub(super) fn rowid(head: &[u8]) -> Result<u64, Error> {
    let number = head.first_chunk().ok_or_else(|| unreadable("the head of a saga", "too few bytes"))?;
    Ok(u64::from_be_bytes(*number))
}

/// The field that an entry stands under.
pub(super) fn field(id: &SagaId, seq: u64) -> String {
    format!("{id}/{seq}")
}

/// What a saga was submitted with, behind its fingerprint and when that was.
pub(super) fn given(row: &Row, fingerprint: &str) -> Result<Vec<u8>, Error> {
    let fixed = Fixed { definition_version: row.definition_version, digest: Cow::Borrowed(&row.digest) };
    let mut packed = Packer::with_capacity(200);
    packed.long(word(fingerprint)?.as_bytes()).time(Some(row.created_at));
    packed.0.extend(json(&fixed));
    Ok(packed.0)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: plain data always encodes")
}

/// Words behind their lengths.
struct Packer(Vec<u8>);

impl Packer {
    fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// A word of less than 256 bytes.
    fn short(&mut self, word: &[u8]) -> &mut Self {
        self.0.push(u8::try_from(word.len()).expect("invariant: numbers and times are short"));
        self.0.extend(word);
        self
    }

    /// A word of less than 65,536 bytes.
    fn long(&mut self, word: &[u8]) -> &mut Self {
        let length = u16::try_from(word.len()).expect("invariant: names are at most 4,096 bytes long");
        self.0.extend(length.to_be_bytes());
        self.0.extend(word);
        self
    }

    /// A word of less than 4 GiB.
    fn longer(&mut self, word: &[u8]) -> &mut Self {
        let length = u32::try_from(word.len()).expect("invariant: calls are far smaller");
        self.0.extend(length.to_be_bytes());
        self.0.extend(word);
        self
    }

    /// A time; none is an empty word.
    fn time(&mut self, time: Option<Time>) -> &mut Self {
        self.short(time.map_or_else(String::new, |time| time.0.to_string()).as_bytes())
    }
}

/// A text whose length fits the form, and which cannot be mistaken for the end of another.
pub(super) fn word(text: &str) -> Result<&str, Error> {
    if text.len() <= 4_096 && !text.contains('\0') {
        return Ok(text);
    }
    let shown: String = text.chars().take(80).collect();
    Err(Error::new(Kind::Refused, format!("{shown:?} is too long, or has a NUL, for the store's index")))
}

/// Reads a row as functions answer it: the saga's head, the row, what the saga was submitted with.
pub(super) fn row(id: SagaId, words: &mut Words) -> Result<Row, Error> {
    let (head, bytes, given) = (&words.next()?, &words.next()?, &words.next()?);
    let rowid = rowid(head)?;
    let mut packed = Packed { bytes: bytes.get(4..).ok_or_else(|| damaged(&id))?, id: &id };
    let _held = packed.take(4)?;
    let (due_at, ended_at) = (packed.time()?, packed.time()?);
    let mut class = Packed { bytes: packed.take(2)?, id: &id };
    let (epoch, node) = (class.text(1)?, class.text(2)?);
    let _pruned_and_contradicted = class.split(2)?;
    let (status, saga) = (class.text(2)?, class.text(2)?);
    let seq = packed.number(1)?;
    let rest: Rest<'_> = serde_json::from_slice(packed.bytes).map_err(|_| damaged(&id))?;
    let mut given = Packed { bytes: given, id: &id };
    given.take(2)?;
    let created_at = given.time()?.unwrap_or_default();
    let fixed: Fixed<'_> = serde_json::from_slice(given.bytes).map_err(|_| damaged(&id))?;
    let owner = match epoch.as_str() {
        "" => None,
        epoch => Some((node, epoch.parse().map_err(|_| damaged(&id))?)),
    };
    Ok(Row {
        rowid,
        saga,
        definition_version: fixed.definition_version,
        digest: fixed.digest.into_owned(),
        status,
        business_state: rest.business_state.into_owned(),
        seq,
        step: rest.step.map(Cow::into_owned),
        operation: rest.operation.map(Cow::into_owned),
        error_class: rest.error_class.map(Cow::into_owned),
        reason: rest.reason.map(Cow::into_owned),
        contradictions: rest.contradictions,
        overdue: rest.overdue,
        created_at,
        updated_at: rest.updated_at,
        ended_at,
        due_at,
        owner,
        id,
    })
}

fn damaged(id: &SagaId) -> Error {
    unreadable(&format!("the row of saga {id}"), "something else than a row")
}

/// Length-prefixed words.
struct Packed<'a> {
    bytes: &'a [u8],
    id: &'a SagaId,
}

impl<'a> Packed<'a> {
    /// The next word, whose length has so many bytes.
    fn take(&mut self, size: usize) -> Result<&'a [u8], Error> {
        let length = self.split(size)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        self.split(length)
    }

    /// The next so many bytes.
    fn split(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let (word, rest) = self.bytes.split_at_checked(bytes).ok_or_else(|| damaged(self.id))?;
        self.bytes = rest;
        Ok(word)
    }

    fn text(&mut self, size: usize) -> Result<String, Error> {
        let word = self.take(size)?;
        String::from_utf8(word.to_vec()).map_err(|_| damaged(self.id))
    }

    fn number(&mut self, size: usize) -> Result<u64, Error> {
        self.text(size)?.parse().map_err(|_| damaged(self.id))
    }

    fn time(&mut self) -> Result<Option<Time>, Error> {
        let text = self.text(1)?;
        let time = (!text.is_empty()).then(|| text.parse().map(Time));
        time.transpose().map_err(|_| damaged(self.id))
    }
}

/// Where a dead saga stands in its index: its group, behind the group's length, and since when in an order of bytes.
fn dead_member(row: &Row) -> Result<Vec<u8>, Error> {
    let mut group = Vec::new();
    for name in [Some(&row.saga), row.step.as_ref(), row.operation.as_ref(), row.error_class.as_ref()] {
        match name {
            None => group.push(0),
            Some(name) => {
                group.push(1);
                // A word has at most 4,096 bytes.
                group.extend((word(name)?.len() as u16).to_be_bytes());
                group.extend(name.as_bytes());
            }
        }
    }
    let mut member = (group.len() as u16).to_be_bytes().to_vec();
    member.extend(group);
    member.extend((row.updated_at.0.cast_unsigned() ^ SIGN).to_be_bytes());
    Ok(member)
}

/// Turned, numbers of both signs stand in one order of bytes.
const SIGN: u64 = 1 << 63;

/// Reads a group from its first and last member.
pub(super) fn dead_group(first: &[u8], last: &[u8], count: u64) -> Result<DeadGroup, Error> {
    let broken = || unreadable("the index of dead sagas", "something else than a member");
    let id = SagaId::new("dead").expect("invariant: this is an id");
    let mut group = Packed { bytes: Packed { bytes: first, id: &id }.take(2)?, id: &id };
    let mut names = Vec::new();
    for _ in 0..4 {
        let (has, rest) = group.bytes.split_first().ok_or_else(broken)?;
        group.bytes = rest;
        names.push(if *has == 1 { Some(group.text(2)?) } else { None });
    }
    let since = |member: &[u8]| {
        let mut rest = Packed { bytes: member, id: &id };
        rest.take(2)?;
        let time = rest.bytes.first_chunk::<8>().ok_or_else(broken)?;
        Ok::<_, Error>(Time((u64::from_be_bytes(*time) ^ SIGN).cast_signed()))
    };
    let (oldest, newest) = (since(first)?, since(last)?);
    let mut names = names.into_iter();
    let mut next = || names.next().flatten();
    Ok(DeadGroup {
        saga: next().unwrap_or_default(),
        step: next(),
        operation: next(),
        error_class: next(),
        count,
        oldest,
        newest,
    })
}

/// An entry as stored: whether it is kept, its writer's nonce, when, the body.
pub(super) fn entry(entry: &StoredEntry, nonce: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(17 + entry.body.len());
    bytes.push(if entry.keep { b'1' } else { b'0' });
    bytes.extend(nonce.to_be_bytes());
    bytes.extend(entry.at.0.to_be_bytes());
    bytes.extend(&entry.body);
    bytes
}

/// Reads an entry and its writer's nonce.
pub(super) fn read_entry(id: &SagaId, seq: u64, bytes: &[u8]) -> Result<(StoredEntry, u64), Error> {
    let read = || {
        let (keep, rest) = bytes.split_first()?;
        let (nonce, rest) = rest.split_first_chunk::<8>()?;
        let (at, body) = rest.split_first_chunk::<8>()?;
        let at = Time(i64::from_be_bytes(*at));
        let entry = StoredEntry { seq, at, keep: *keep == b'1', body: body.to_vec() };
        Some((entry, u64::from_be_bytes(*nonce)))
    };
    read().ok_or_else(|| unreadable(&format!("entry {seq} of saga {id}"), "too few bytes"))
}
