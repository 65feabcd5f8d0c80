//! What becomes of each item of a batch, in a store that looks at all it depends on first, locks it, and then writes kind by kind.
//!
//! The items are decided by what was looked at and what the earlier ones write. Nothing here waits: a backend reads a [`Look`], calls
//! [`decide`], and writes [`Writes`] in the same transaction. Constraints of the database decide what others did since.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Advance, Advanced, Error, Holder, Item, Kind, Outcome, Row, StoredEntry, Submission, Submitted};
use amends_core::Time;

/// What a batch depends on, as of its locks.
#[derive(Debug, Default)]
pub struct Look {
    /// Sagas to be moved: id, and number of the last entry.
    pub sagas: HashMap<u64, (String, u64)>,
    /// Fingerprints, by id, of those that are to be submitted and are there.
    pub known: HashMap<String, String>,
    /// Rows of callers' transactions that wait to become those that are to be submitted, by id (see [`crate::Intake`]).
    pub arrived: HashMap<String, Arrived>,
    /// Claims that the batch names and somebody holds.
    pub claims: HashMap<String, Held>,
    /// Rows of holders, and of those that are to take claims.
    pub rows: HashMap<u64, Row>,
    /// Mail that waits, oldest first: (number, posted), by saga.
    pub mails: HashMap<u64, Vec<(u64, Time)>>,
    /// Numbers for new sagas, last first: at least as many as the batch submits.
    pub numbers: Vec<u64>,
}

/// A row of a caller's transaction that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub number: u64,
    /// Its fingerprint, as [`amends_core::json::fingerprint`] makes it.
    pub fingerprint: String,
}

/// A claim that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// By which saga.
    pub saga: u64,
    /// Since when.
    pub since: Time,
}

/// What a batch writes, in the order of its statements.
#[derive(Debug, Default)]
pub struct Writes {
    /// Sagas to be made, with their fingerprints, by id: the order in which two batches meet.
    pub sagas: BTreeMap<String, (Row, String)>,
    /// Numbers of rows of callers' transactions that have become sagas by this batch: they go.
    pub adopted: Vec<u64>,
    /// (saga, entry, nonce).
    pub entries: Vec<(u64, StoredEntry, u64)>,
    /// Sagas whose claims of before this batch are released.
    pub released: Vec<u64>,
    /// Claims to take, by name, for the same reason.
    pub claims: BTreeMap<String, Held>,
    /// (mail, saga) to answer.
    pub answers: BTreeMap<(u64, u64), Vec<u8>>,
    /// Rows to be written, with the last entry's number, by saga.
    pub rows: BTreeMap<u64, (Row, u64)>,
}

impl Writes {
    /// Whether nothing is to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { sagas, adopted, entries, released, claims, answers, rows } = self;
        sagas.is_empty()
            && adopted.is_empty()
            && entries.is_empty()
            && released.is_empty()
            && claims.is_empty()
            && answers.is_empty()
            && rows.is_empty()
    }
}

/// Decides all items. `takes_work`: the error that new sagas are refused with, if they are. `number_max`: the largest number that the
/// backend can hold; an item with a larger one is refused alone, before anything is written.
///
/// # Panics
/// If there are fewer numbers than new sagas.
#[must_use]
pub fn decide(
    batch: &[Item],
    look: Look,
    takes_work: &Result<(), Error>,
    number_max: u64,
) -> (Vec<Outcome>, Writes) {
    let mut deciding = Deciding { look, writes: Writes::default(), lost: HashSet::new(), number_max };
    let outcomes = batch.iter().map(|item| deciding.item(item, takes_work)).collect();
    (outcomes, deciding.writes)
}

struct Deciding {
    /// Changed by what each item writes.
    look: Look,
    writes: Writes,
    /// Sagas of which an item was not committed. What was decided on top of it must not be committed either, even
    /// where somebody else's entries have made the numbers fit.
    lost: HashSet<u64>,
    number_max: u64,
}

impl Deciding {
    fn item(&mut self, item: &Item, takes_work: &Result<(), Error>) -> Outcome {
        let fits = item.check().and_then(|()| fits(item, self.number_max));
        match item {
            Item::Submit(submission) => match fits.and_then(|()| takes_work.clone()) {
                Ok(()) => Outcome::Submitted(self.submit(submission)),
                Err(error) => Outcome::Failed(error),
            },
            Item::Advance(item) => {
                let answer = fits.map(|()| match self.lost.contains(&item.rowid) {
                    true => Advanced::Conflict,
                    false => self.advance(item),
                });
                if !matches!(answer, Ok(Advanced::Committed)) {
                    self.lost.insert(item.rowid);
                }
                answer.map_or_else(Outcome::Failed, Outcome::Advanced)
            }
        }
    }

    fn submit(&mut self, submission: &Submission) -> Submitted {
        let Submission { row, entries, claims, fingerprint, nonce } = submission;
        // Whose id it is comes first: a saga that is there already holds its claims itself.
        if let Some(known) = self.look.known.get(row.id.as_str()) {
            return if known == fingerprint { Submitted::Same } else { Submitted::Different };
        }
        // A caller's transaction that has committed came first.
        let arrived = self.look.arrived.get(row.id.as_str());
        if arrived.is_some_and(|arrived| arrived.fingerprint != *fingerprint) {
            return Submitted::Different;
        }
        let adopted = arrived.map(|arrived| arrived.number);
        if let Some(holder) = self.holder(claims, 0) {
            return Submitted::Held(Box::new(holder));
        }
        let rowid = self.look.numbers.pop().expect("invariant: a number was fetched for each submission");
        let row = Row { rowid, seq: entries.last().map_or(0, |entry| entry.seq), ..row.clone() };
        self.writes.adopted.extend(adopted);
        self.take(claims, rowid, row.created_at);
        self.append(rowid, entries, *nonce);
        self.look.known.insert(row.id.to_string(), fingerprint.clone());
        self.look.rows.insert(rowid, row.clone());
        self.writes.sagas.insert(row.id.to_string(), (row, fingerprint.clone()));
        Submitted::Created(rowid)
    }

    fn advance(&mut self, item: &Advance) -> Advanced {
        let rowid = item.rowid;
        match self.look.sagas.get(&rowid) {
            Some((id, last)) if id == item.id.as_str() && *last == item.after => {}
            Some(_) | None => return Advanced::Conflict,
        }
        if let Some(holder) = self.holder(&item.take_claims, rowid) {
            return Advanced::Held(Box::new(holder));
        }
        if item.release_claims {
            self.look.claims.retain(|_, claim| claim.saga != rowid);
            self.writes.claims.retain(|_, claim| claim.saga != rowid);
            self.writes.released.push(rowid);
        }
        self.take(&item.take_claims, rowid, item.at());
        for (mail, answer) in &item.mail {
            // The first answer stands: its poster may have read it.
            self.writes.answers.entry((*mail, rowid)).or_insert_with(|| answer.clone());
            if let Some(waiting) = self.look.mails.get_mut(&rowid) {
                waiting.retain(|(waiting, _)| waiting != mail);
            }
        }
        self.append(rowid, &item.entries, item.nonce);
        let seq = item.entries.last().map_or(item.after, |entry| entry.seq);
        if let Some(saga) = self.look.sagas.get_mut(&rowid) {
            saga.1 = seq;
        }
        if let Some(row) = &item.row {
            self.set_row(rowid, row.clone(), seq);
        }
        Advanced::Committed
    }

    fn set_row(&mut self, rowid: u64, mut row: Row, seq: u64) {
        if row.owner.is_none() {
            // A saga must not be let go with mail in its box that nothing would wake it for.
            let mail_at = self.look.mails.get(&rowid).and_then(|waiting| waiting.first()).map(|(_, at)| *at);
            row.due_at = [row.due_at, mail_at].into_iter().flatten().min();
        }
        // What a saga was submitted with never changes.
        if let Some(old) = self.look.rows.get_mut(&rowid) {
            *old = Row {
                rowid,
                id: old.id.clone(),
                saga: old.saga.clone(),
                definition_version: old.definition_version,
                digest: old.digest.clone(),
                created_at: old.created_at,
                seq,
                ..row.clone()
            };
        }
        self.writes.rows.insert(rowid, (row, seq));
    }

    fn append(&mut self, rowid: u64, entries: &[StoredEntry], nonce: u64) {
        self.writes.entries.extend(entries.iter().map(|entry| (rowid, entry.clone(), nonce)));
    }

    /// Who holds one of these claims, other than the saga `own`.
    fn holder(&self, claims: &[String], own: u64) -> Option<Holder> {
        claims.iter().find_map(|name| {
            let claim = self.look.claims.get(name).filter(|claim| claim.saga != own)?;
            let row = self.look.rows.get(&claim.saga)?.clone();
            Some(Holder { claim: name.clone(), saga: row.id.clone(), since: claim.since, row })
        })
    }

    fn take(&mut self, claims: &[String], saga: u64, since: Time) {
        for name in claims {
            if !self.look.claims.contains_key(name) {
                let held = Held { saga, since };
                self.look.claims.insert(name.clone(), held);
                self.writes.claims.insert(name.clone(), held);
            }
        }
    }
}

/// An error if the item holds a number that the backend cannot.
fn fits(item: &Item, number_max: u64) -> Result<(), Error> {
    let (owner, version, seq) = match item {
        Item::Submit(item) => (item.row.owner.as_ref(), item.row.definition_version, 0),
        Item::Advance(item) => {
            let owner = item.row.as_ref().and_then(|row| row.owner.as_ref());
            (owner, 0, item.entries.last().map_or(0, |entry| entry.seq))
        }
    };
    let epoch = owner.map_or(0, |(_, epoch)| *epoch);
    match [epoch, version, seq].into_iter().find(|number| *number > number_max) {
        None => Ok(()),
        Some(number) => Err(Error::new(Kind::Refused, format!("{number} is more than this store can hold"))),
    }
}
