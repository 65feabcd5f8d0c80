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
pub enum Operation {
    /// An action was carried out.
    Action,
    /// An action was undone.
    Compensation,
    /// A compensation came for an action that had not been carried out: from now on it never will be.
    Tombstone,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The idempotency key it was done under.
    pub key: String,
    /// What was done.
    pub operation: Operation,
    /// The key of the action that was done, undone, or will never be done.
    pub of: String,
    /// The participant's own number for it; a tombstone has none.
    pub serial: Option<String>,
    /// When, RFC 3339 UTC.
    pub at: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    key: String,
    reason: String,
}

/// The books of one participant.
#[derive(Debug)]
pub(crate) struct Ledger {
    effects: File,
    refusals: File,
    lines: Vec<Line>,
    by_key: HashMap<String, usize>,
    by_serial: HashMap<String, usize>,
    undone: HashMap<String, usize>,
    refused: HashMap<String, String>,
    prefix: char,
    lie: Option<Lie>,
}

/// How a participant breaks its word, to show that the comparison would notice. It believes itself: what it answers is what it
/// should have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Some effects happen twice.
    Doubles,
    /// Some actions do not happen.
    Loses,
    /// Some compensations do not happen.
    Keeps,
    /// Some actions are undone although nobody asked for it.
    Undoes,
}

/// One effect in so many is a lie.
const LIE_EVERY: usize = 5;

impl Ledger {
    /// Opens the books of `name` in `folder`, or begins them.
    pub(crate) fn open(folder: &Path, name: &str, lie: Option<Lie>) -> io::Result<Self> {
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
            lie,
        };
        for line in lines {
            ledger.index(line);
        }
        Ok(ledger)
    }

    /// What was done under this key, first of all if it was done more than once.
    pub(crate) fn done(&self, key: &str) -> Option<&Line> {
        self.by_key.get(key).map(|at| &self.lines[*at])
    }

    /// The action that was given this number.
    pub(crate) fn by_serial(&self, serial: &str) -> Option<&Line> {
        self.by_serial.get(serial).map(|at| &self.lines[*at])
    }

    /// What undid this action, or made sure that it never happens.
    pub(crate) fn undone(&self, action_key: &str) -> Option<&Line> {
        self.undone.get(action_key).map(|at| &self.lines[*at])
    }

    /// Why this key was refused, if it was.
    pub(crate) fn refused(&self, key: &str) -> Option<&str> {
        self.refused.get(key).map(String::as_str)
    }

    /// Does something: it has happened once this returns, whatever becomes of the process.
    pub(crate) fn write(&mut self, key: &str, operation: Operation, of: &str) -> io::Result<Line> {
        let number = self.lines.len() + 1;
        let serial = (operation != Operation::Tombstone).then(|| format!("{}-{number}", self.prefix));
        let at = jiff::Timestamp::now().to_string();
        let line = Line { key: key.to_owned(), operation, of: of.to_owned(), serial, at };
        for told in told(self.lie.filter(|_| number.is_multiple_of(LIE_EVERY)), &line) {
            append(&mut self.effects, &told)?;
        }
        self.index(line.clone());
        Ok(line)
    }

    /// Refuses a key for good.
    pub(crate) fn refuse(&mut self, key: &str, reason: &str) -> io::Result<()> {
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

/// What the ledger says of an effect.
fn told(lie: Option<Lie>, line: &Line) -> Vec<Line> {
    match (lie, line.operation) {
        (Some(Lie::Doubles), Operation::Action | Operation::Compensation) => vec![line.clone(), line.clone()],
        (Some(Lie::Loses), Operation::Action) | (Some(Lie::Keeps), Operation::Compensation) => Vec::new(),
        (Some(Lie::Undoes), Operation::Action) => {
            let key = format!("{} undone", line.key);
            vec![line.clone(), Line { key, operation: Operation::Compensation, ..line.clone() }]
        }
        (
            None | Some(Lie::Doubles | Lie::Loses | Lie::Keeps | Lie::Undoes),
            Operation::Action | Operation::Compensation | Operation::Tombstone,
        ) => vec![line.clone()],
    }
}

/// Reads the whole lines of a file.
///
/// # Errors
/// If it cannot be read, or has a line that is none.
pub fn read<T: DeserializeOwned>(file: &Path) -> io::Result<Vec<T>> {
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
        let mut ledger = Ledger::open(folder.path(), "payment", None).unwrap();
        let charge = ledger.write("a:charge:action", Operation::Action, "a:charge:action").unwrap();
        ledger.refuse("b:charge:action", "card refused").unwrap();
        ledger.effects.write_all(b"{\"key\":\"torn").unwrap();
        drop(ledger);

        let mut ledger = Ledger::open(folder.path(), "payment", None).unwrap();
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
