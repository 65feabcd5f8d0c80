//! A participant's books: what it did and what it refused, each line on disk before anyone hears of it.
//!
//! Two files, only appended to: effects in `ledgers/NAME.jsonl` (what the demo compares with the sagas) and refusals in
//! `refusals/NAME.jsonl`. One request makes at most one line, so no request can be half written. After a crash both are read
//! again; a last line without its end was never answered and is cut off.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a line of the ledger says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// An action was carried out.
    Action,
    /// An action was undone.
    Compensation,
    /// A compensation came for an action that had not been carried out: from now on it never will be.
    Tombstone,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The idempotency key it was done under.
    pub(crate) key: String,
    /// What was done.
    pub(crate) operation: Operation,
    /// The key of the action that was done, undone, or will never be done.
    pub(crate) of: String,
    /// The participant's own number for it; a tombstone has none.
    pub(crate) serial: Option<String>,
    /// When, RFC 3339 UTC.
    pub(crate) at: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    key: String,
    reason: String,
}

/// The books of one participant.
#[derive(Debug)]
pub(super) struct Ledger {
    effects: File,
    refusals: File,
    lines: Vec<Line>,
    by_key: HashMap<String, usize>,
    by_serial: HashMap<String, usize>,
    undone: HashMap<String, usize>,
    refused: HashMap<String, String>,
    prefix: char,
}

impl Ledger {
    /// Opens the books of `name` in `folder`, or begins them.
    pub(super) fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let (effects, lines) = open::<Line>(&folder.join("ledgers"), name)?;
        let (refusals, refused) = open::<Refusal>(&folder.join("refusals"), name)?;
        let mut ledger = Self {
            effects,
            refusals,
            lines: Vec::new(),
            by_key: HashMap::new(),
            by_serial: HashMap::new(),
            undone: HashMap::new(),
            refused: refused.into_iter().map(|refusal| (refusal.key, refusal.reason)).collect(),
            prefix: name.chars().next().unwrap_or('x'),
        };
        for line in lines {
            ledger.index(line);
        }
        Ok(ledger)
    }

    /// What was done under this key, first of all if it was done more than once.
    pub(super) fn done(&self, key: &str) -> Option<&Line> {
        self.by_key.get(key).map(|at| &self.lines[*at])
    }

    /// The action that was given this number.
    pub(super) fn by_serial(&self, serial: &str) -> Option<&Line> {
        self.by_serial.get(serial).map(|at| &self.lines[*at])
    }

    /// What undid this action, or made sure that it never happens.
    pub(super) fn undone(&self, action_key: &str) -> Option<&Line> {
        self.undone.get(action_key).map(|at| &self.lines[*at])
    }

    /// Why this key was refused, if it was.
    pub(super) fn refused(&self, key: &str) -> Option<&str> {
        self.refused.get(key).map(String::as_str)
    }

    /// Does something: it has happened once this returns, whatever becomes of the process.
    pub(super) fn write(&mut self, key: &str, operation: Operation, of: &str) -> io::Result<Line> {
        let number = self.lines.len() + 1;
        let serial = (operation != Operation::Tombstone).then(|| format!("{}-{number}", self.prefix));
        let at = jiff::Timestamp::now().to_string();
        let line = Line { key: key.to_owned(), operation, of: of.to_owned(), serial, at };
        append(&mut self.effects, &line)?;
        self.index(line.clone());
        Ok(line)
    }

    /// Refuses a key for good.
    pub(super) fn refuse(&mut self, key: &str, reason: &str) -> io::Result<()> {
        append(&mut self.refusals, &Refusal { key: key.to_owned(), reason: reason.to_owned() })?;
        self.refused.insert(key.to_owned(), reason.to_owned());
        Ok(())
    }

    fn index(&mut self, line: Line) {
        let at = self.lines.len();
        self.by_key.entry(line.key.clone()).or_insert(at);
        if let Some(serial) = &line.serial {
            self.by_serial.insert(serial.clone(), at);
        }
        if line.operation != Operation::Action {
            self.undone.entry(line.of.clone()).or_insert(at);
        }
        self.lines.push(line);
    }
}

/// Reads the whole lines of a file.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> io::Result<Vec<T>> {
    let text = std::fs::read_to_string(file)?;
    text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

fn open<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<(File, Vec<T>)> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.jsonl"));
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        file.set_len(whole as u64)?;
        file.sync_data()?;
    }
    Ok((file, read(&path)?))
}

fn append(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_survive_a_crash_and_a_torn_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path(), "payment").unwrap();
        let charge = ledger.write("a:charge:action", Operation::Action, "a:charge:action").unwrap();
        ledger.refuse("b:charge:action", "card refused").unwrap();
        ledger.effects.write_all(b"{\"key\":\"torn").unwrap();
        drop(ledger);

        let mut ledger = Ledger::open(folder.path(), "payment").unwrap();
        assert_eq!(ledger.done("a:charge:action"), Some(&charge));
        assert_eq!(ledger.by_serial("p-1"), Some(&charge));
        assert_eq!(ledger.refused("b:charge:action"), Some("card refused"));
        let refund = ledger.write("a:charge:compensation", Operation::Compensation, &charge.key).unwrap();
        assert_eq!(refund.serial.as_deref(), Some("p-2"));
        assert_eq!(ledger.undone("a:charge:action"), Some(&refund));
        let lines: Vec<Line> = read(&folder.path().join("ledgers/payment.jsonl")).unwrap();
        assert_eq!(lines, [charge, refund]);
    }
}
