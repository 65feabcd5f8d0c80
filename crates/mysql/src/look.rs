//! The first round trip of a batch: locks what it moves, and looks at all that its items depend on.

use amends_store::batch::{Held, Look};
use amends_store::{Error, Item};

use crate::intake;
use crate::rows::{self, columns, number, text, time};
use crate::session::Answer;
use crate::sql::{Script, Value, fill};

/// A saga, and the number of its last entry.
macro_rules! last {
    ($what:literal, $behind:literal) => {
        concat!(
            "SELECT s.rowid, ",
            $what,
            "GREATEST(s.seq, COALESCE((SELECT e.seq FROM amends_entry e WHERE e.saga = s.rowid ORDER BY e.seq DESC LIMIT 1), 0)) \
             FROM amends_saga s FORCE INDEX (PRIMARY) WHERE s.rowid IN (?)",
            $behind
        )
    };
}

// In the order of their numbers, so that two batches never wait for each other. What the next statements see comes after these locks. Without the
// hint a small table is read as a whole, and rows of others are waited for. Entries are seen as of its beginning: those that others
// committed while it waited are met as duplicate keys, by what is written on top of what was there before.
const LOCK: &str = last!("s.id, ", " ORDER BY s.rowid FOR UPDATE");

// What writes no entry would meet none.
const LAST: &str = last!("", "");

const KNOWN: &str = "SELECT id, fingerprint FROM amends_saga WHERE id IN (?)";

const CLAIMS: &str = concat!(
    "SELECT ",
    columns!(),
    ", c.name, c.since FROM amends_claim c JOIN amends_saga s ON s.rowid = c.saga WHERE c.name IN (?)"
);

// Another item of the batch may meet a claim that they take.
const TAKERS: &str = concat!("SELECT ", columns!(), " FROM amends_saga s WHERE s.rowid IN (?)");

const MAIL: &str = "SELECT saga, id, posted_at FROM amends_mail WHERE waiting_saga IN (?) ORDER BY saga, id";

/// Numbers from here on stand for sagas that are yet to be inserted: the first, the second, …. No saga has such a number.
pub(crate) const NEW: u64 = 1 << 62;

/// What a batch looks at: one kind after the other, each in the order of its keys.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Lock,
    Last,
    Known,
    Arrived,
    Claims,
    Takers,
    Mail,
}

/// The statements that look, and how their answers are read.
pub(crate) struct Looking {
    script: Script,
    kinds: Vec<Kind>,
    submissions: u64,
}

impl Looking {
    /// At what this batch depends on.
    pub(crate) fn at(batch: &[Item]) -> Self {
        let (mut moved, mut kept, mut taking, mut let_go) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut ids, mut claims) = (Vec::new(), Vec::new());
        for item in batch {
            match item {
                Item::Submit(item) => {
                    ids.push(item.row.id.as_str());
                    claims.extend(item.claims.iter().map(String::as_str));
                }
                Item::Advance(item) => {
                    moved.push(item.rowid);
                    if item.entries.is_empty() {
                        kept.push(item.rowid);
                    }
                    if !item.take_claims.is_empty() {
                        taking.push(item.rowid);
                    }
                    if item.row.as_ref().is_some_and(|row| row.owner.is_none()) {
                        let_go.push(item.rowid);
                    }
                    claims.extend(item.take_claims.iter().map(String::as_str));
                }
            }
        }
        let mut looking = Self {
            script: Script::of(&["START TRANSACTION"]),
            kinds: Vec::new(),
            submissions: u64::try_from(ids.len()).unwrap_or(u64::MAX),
        };
        looking.add(Kind::Lock, LOCK, moved);
        looking.add(Kind::Last, LAST, kept);
        // What others commit in between is seen by the later ones alone: of a submission that is made at this moment not its claim without
        // itself, which would be its own holder, and not that it has left the transactions' table without where it went.
        looking.add(Kind::Claims, CLAIMS, claims);
        looking.add(Kind::Arrived, intake::ARRIVED, ids.clone());
        looking.add(Kind::Known, KNOWN, ids);
        looking.add(Kind::Takers, TAKERS, taking);
        looking.add(Kind::Mail, MAIL, let_go);
        looking
    }

    fn add<'a, T: Into<Value<'a>>>(&mut self, kind: Kind, sql: &str, keys: Vec<T>) {
        if !keys.is_empty() {
            self.script.push(&fill(sql, &[Value::list(keys)]));
            self.kinds.push(kind);
        }
    }

    /// What is to be sent.
    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    /// Reads the answers.
    pub(crate) fn read(&self, answers: &[Answer]) -> Result<Look, Error> {
        let numbers = (0..self.submissions).rev().map(|place| NEW + place).collect();
        let mut look = Look { numbers, ..Look::default() };
        // The first is that of START TRANSACTION.
        for (kind, answer) in self.kinds.iter().zip(answers.iter().skip(1)) {
            for row in &answer.rows {
                kind.read(row, &mut look)?;
            }
        }
        Ok(look)
    }
}

impl Kind {
    fn read(self, row: &mysql_async::Row, look: &mut Look) -> Result<(), Error> {
        match self {
            Self::Lock => {
                look.sagas.insert(number(row, 0)?, (text(row, 1)?, number(row, 2)?));
            }
            Self::Last => {
                let seq = number(row, 1)?;
                if let Some(saga) = look.sagas.get_mut(&number(row, 0)?) {
                    saga.1 = seq;
                }
            }
            Self::Known => {
                look.known.insert(text(row, 0)?, text(row, 1)?);
            }
            Self::Arrived => {
                let (id, arrived) = intake::arrived(row)?;
                look.arrived.insert(id, arrived);
            }
            Self::Claims => {
                let holder = rows::row(row)?;
                let since = time(row, rows::COLUMN_COUNT + 1)?;
                look.claims.insert(text(row, rows::COLUMN_COUNT)?, Held { saga: holder.rowid, since });
                look.rows.insert(holder.rowid, holder);
            }
            Self::Takers => {
                let taker = rows::row(row)?;
                look.rows.insert(taker.rowid, taker);
            }
            Self::Mail => {
                look.mails.entry(number(row, 0)?).or_default().push((number(row, 1)?, time(row, 2)?));
            }
        }
        Ok(())
    }
}
