//! What a node has seen of its store, in memory and in a small file, and how it finds that the store went back in time.
//!
//! The store counts its commits; the count is its mark. It notes which runs of the server there were, and at which mark each began. Whoever
//! saw a mark in one run compares it with where the next runs began: a snapshot that was put back, or a replica that had not everything,
//! began too low, and that stays visible when others have written since.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use amends_store::{Error, Kind};
use serde::{Deserialize, Serialize};

use super::words::{Words, unreadable};

/// The file's name in the data folder.
const FILE: &str = "redis-store.json";

/// What a node saw last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The store's own id.
    pub(super) store: String,
    /// Grows when people accept a loss.
    pub(super) epoch: u64,
    /// The server's run.
    pub(super) run: String,
    /// The highest mark.
    pub(super) mark: u64,
}

/// What the store says of itself.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) seen: Seen,
    /// Runs, oldest first, and the mark at which each began.
    runs: Vec<(String, u64)>,
    /// The number of the last saga that was there when people last accepted a loss.
    pub(super) loss: Option<u64>,
}

impl Found {
    /// Reads the answer of the open function. `None`: there is no store.
    pub(super) fn read(mut words: Words) -> Result<Option<Self>, Error> {
        let version = words.text()?;
        if version == "none" {
            return Ok(None);
        }
        if version != "3" {
            let message = format!(
                "the store is of version {version}, and this program knows version 3: use the program that made it, or begin with an empty server"
            );
            return Err(Error::new(Kind::Refused, message));
        }
        let (store, epoch) = (words.text()?, words.number()?);
        let (run, mark) = (words.text()?, words.number()?);
        let runs = words.text()?;
        let runs = runs.lines().filter_map(|line| {
            let (run, began) = line.split_once(' ')?;
            Some((run.to_owned(), began.parse().ok()?))
        });
        let loss = Some(words.text()?).filter(|loss| !loss.is_empty());
        let loss = loss.map(|loss| loss.parse()).transpose();
        let loss = loss.map_err(|_| unreadable("the note of a loss", "no number"))?;
        Ok(Some(Self { seen: Seen { store, epoch, run, mark }, runs: runs.collect(), loss }))
    }
}

impl Seen {
    /// Says what is lost, in plain words, if this is not a later state of the store that was seen.
    pub(super) fn loss(&self, found: Option<&Found>) -> Option<String> {
        let Some(found) = found else {
            return Some(format!("it is empty, and held the store {}", self.store));
        };
        let now = &found.seen;
        if now.store != self.store {
            return Some(format!("it holds the store {}, and held {}", now.store, self.store));
        }
        if now.epoch != self.epoch {
            let lost = now.epoch < self.epoch;
            return lost.then(|| {
                format!("it is from before a loss was accepted (epoch {}, seen {})", now.epoch, self.epoch)
            });
        }
        let later = found.runs.iter().position(|(run, _)| *run == self.run).map_or(0, |place| place + 1);
        let began = found.runs.iter().skip(later).map(|(_, began)| *began).min();
        let lowest = began.map_or(now.mark, |began| began.min(now.mark));
        (lowest < self.mark)
            .then(|| format!("it went back to commit {lowest}, and commit {} was seen", self.mark))
    }
}

/// The file that keeps it over a restart.
#[derive(Debug)]
pub(super) struct SeenFile(PathBuf);

impl SeenFile {
    pub(super) fn in_folder(folder: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, &e))?;
        Ok(Self(folder.join(FILE)))
    }

    pub(super) fn read(&self) -> Result<Option<Seen>, Error> {
        let text = match std::fs::read(&self.0) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unwritable(&self.0, &e)),
        };
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(|e| {
            let message = format!(
                "{} cannot be read ({e}): it says what this node last saw of its store; remove it only if the store is known to be whole",
                self.0.display()
            );
            Error::new(Kind::Refused, message)
        })
    }

    /// Writes it whole or not at all. Blocks until it is on disk.
    pub(super) fn write(&self, seen: &Seen) -> Result<(), Error> {
        let text = serde_json::to_vec(seen).expect("invariant: plain data always encodes");
        let new = self.0.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&new, &self.0)?;
            self.0.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        write().map_err(|e| unwritable(&self.0, &e))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    let message =
        format!("{}: {error}; the data folder must be writable by this user ([store] data)", path.display());
    Error::new(Kind::Unwritable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(run: &str, mark: u64) -> Seen {
        Seen { store: "s".to_owned(), epoch: 1, run: run.to_owned(), mark }
    }

    fn found(mark: u64, runs: &[(&str, u64)]) -> Found {
        let last = runs.last().map_or("", |(run, _)| *run);
        Found {
            seen: seen(last, mark),
            runs: runs.iter().map(|(run, began)| ((*run).to_owned(), *began)).collect(),
            loss: None,
        }
    }

    #[test]
    fn a_store_that_went_on_has_lost_nothing() {
        for (mark, runs) in
            [(10, &[("a", 0)][..]), (12, &[("a", 0), ("b", 10)]), (30, &[("a", 0), ("b", 11), ("c", 20)])]
        {
            assert_eq!(seen("a", 10).loss(Some(&found(mark, runs))), None, "{runs:?}");
        }
    }

    #[test]
    fn a_store_that_went_back_has_also_when_others_have_written_since() {
        for (mark, runs) in [
            (9, &[("a", 0)][..]),
            (9, &[("a", 0), ("b", 9)]),
            (50, &[("a", 0), ("b", 9)]),
            (50, &[("a", 0), ("b", 9), ("c", 40)]),
            // The snapshot is from before run a.
            (50, &[("z", 0), ("b", 4)]),
        ] {
            assert!(seen("a", 10).loss(Some(&found(mark, runs))).is_some(), "{runs:?}");
        }
        assert!(seen("a", 0).loss(None).is_some());
    }

    #[test]
    fn another_store_or_an_earlier_epoch_is_a_loss_and_a_later_one_is_not() {
        let mut other = found(10, &[("a", 0)]);
        other.seen.store = "t".to_owned();
        assert!(seen("a", 1).loss(Some(&other)).is_some());
        let mut accepted = found(3, &[("b", 3)]);
        accepted.seen.epoch = 2;
        assert_eq!(seen("a", 10).loss(Some(&accepted)), None);
        accepted.seen.epoch = 0;
        assert!(seen("a", 1).loss(Some(&accepted)).is_some());
    }
}
