//! The atomic items of a batch, and the answers to them.

use amends_core::{Entry, SagaId, Time};

use crate::{Error, Kind, Row};

/// An entry as stored: opaque to the store. `body` is the core's encoding of an [`Entry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its number within the saga.
    pub seq: u64,
    /// When it was decided.
    pub at: Time,
    /// Whether retention keeps it (people's entries and contradictions).
    pub keep: bool,
    /// The encoded entry.
    pub body: Vec<u8>,
}

impl StoredEntry {
    /// Encodes an entry (JSON).
    ///
    /// # Panics
    /// Never for entries the core makes: they contain only JSON-representable data.
    #[must_use]
    pub fn encode(entry: &Entry) -> Self {
        let body = serde_json::to_vec(&entry.kind).expect("entries are plain data and always encode");
        Self { seq: entry.seq, at: entry.at, keep: entry.kind.is_kept(), body }
    }

    /// Decodes it.
    ///
    /// # Errors
    /// In plain words, if this version cannot read it; the saga must then be parked, visible.
    pub fn decode(&self) -> Result<Entry, String> {
        match serde_json::from_slice(&self.body) {
            Ok(kind) => Ok(Entry { seq: self.seq, at: self.at, kind }),
            Err(e) => {
                // What cannot be read may be named at any length; a reason is a sentence.
                let why: String = e.to_string().chars().take(300).collect();
                let seq = self.seq;
                Err(match serde_json::from_slice::<serde::de::IgnoredAny>(&self.body) {
                    // It is whole, only not known here.
                    Ok(_) => format!(
                        "entry {seq} was written by a newer version ({why}); run a node of that version, which takes the saga up by itself"
                    ),
                    Err(_) => format!("entry {seq} is damaged ({why}); look for it in a backup of the store"),
                })
            }
        }
    }
}

/// One atomic item of a batch.
#[derive(Debug, Clone)]
pub enum Item {
    /// Begin a saga.
    Submit(Submission),
    /// Move one.
    Advance(Advance),
}

impl Item {
    /// Checks what every store relies on: entries are numbered on from what they follow.
    ///
    /// # Errors
    /// [`Kind::Refused`] if they are not: a fault of the caller, and nothing is written.
    pub fn check(&self) -> Result<(), Error> {
        let (id, after, entries) = match self {
            Self::Submit(submission) => (&submission.row.id, 0, &submission.entries),
            Self::Advance(advance) => (&advance.id, advance.after, &advance.entries),
        };
        let numbered = entries.iter().zip(after.saturating_add(1)..).all(|(entry, seq)| entry.seq == seq);
        if numbered && !(after == 0 && entries.is_empty()) {
            return Ok(());
        }
        let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
        Err(Error::new(Kind::Refused, format!("the entries {seqs:?} of {id} do not follow entry {after}")))
    }
}

/// Begins a saga: id row, entries, list row and claims, all or none.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Its list row, with id, owner, due time.
    pub row: Row,
    /// Its entries, `seq` 1, 2, ….
    pub entries: Vec<StoredEntry>,
    /// The claims to take; empty while `accepting`.
    pub claims: Vec<String>,
    /// Digest of (definition name, input), by which a second submission is the same or different.
    pub fingerprint: String,
    /// Unique to this write, so that after a lost answer a re-read tells whose it was.
    pub nonce: u64,
}

/// Moves a saga: entries, list row, released claims, mailbox answers, all or none.
#[derive(Debug, Clone)]
pub struct Advance {
    /// The saga.
    pub id: SagaId,
    /// Its number in the store, as in [`Row::rowid`].
    pub rowid: u64,
    /// `seq` of the last entry this was decided on. With no entries, nothing is appended but it must still be the last.
    pub after: u64,
    /// The entries, `seq` = `after` + 1, ….
    pub entries: Vec<StoredEntry>,
    /// The new list row, if it changes (when parked, taken over or ended; not on the hot path).
    pub row: Option<Row>,
    /// Release all its claims.
    pub release_claims: bool,
    /// Claims to take (rule 13); if one is held, nothing of the item is written.
    pub take_claims: Vec<String>,
    /// Answers to mails of its mailbox: (mail id, answer).
    pub mail: Vec<(u64, Vec<u8>)>,
    /// Unique to this write.
    pub nonce: u64,
}

impl Advance {
    /// When it was decided: the time of its last entry, else of its row.
    #[must_use]
    pub fn at(&self) -> Time {
        let entry = self.entries.last().map(|entry| entry.at);
        entry.or(self.row.as_ref().map(|row| row.updated_at)).unwrap_or_default()
    }
}

/// The answer to an [`Item`].
#[derive(Debug, Clone)]
pub enum Outcome {
    /// To a [`Submission`].
    Submitted(Submitted),
    /// To an [`Advance`].
    Advanced(Advanced),
    /// Not known, or not possible.
    Failed(Error),
}

/// The answer to a [`Submission`].
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// It exists now, durably; its number in the store.
    Created(u64),
    /// It existed, with the same fingerprint.
    Same,
    /// It existed, with another fingerprint. Nothing was written.
    Different,
    /// One of its claims is held. Nothing was written.
    Held(Box<Holder>),
}

/// Who holds a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    /// The claim.
    pub claim: String,
    /// The saga that holds it.
    pub saga: SagaId,
    /// Since when.
    pub since: Time,
    /// The holder's list row, as of its last write.
    pub row: Row,
}

/// The answer to an [`Advance`].
#[derive(Debug, Clone, PartialEq)]
pub enum Advanced {
    /// Written, durably.
    Committed,
    /// Another write came first: `after` is not the last entry. Nothing was written.
    Conflict,
    /// A claim to be taken is held. Nothing was written.
    Held(Box<Holder>),
}

/// An input waiting in a saga's mailbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// Its number in the store.
    pub id: u64,
    /// The poster's unique id of the input: posting it again is no second input.
    pub input_id: String,
    /// The encoded input.
    pub body: Vec<u8>,
}
