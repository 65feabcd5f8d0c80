//! One transaction for all that waits.

use std::sync::Arc;

use amends_store::Error;
use rusqlite::Connection;

use super::job::{Job, Tx};
use super::last_seq::LastSeqs;
use super::tally::Tally;
use crate::error::{Trouble, indeterminate};
use crate::health::Health;
use crate::wal::Wal;

/// What a probe writes to learn whether the disk has room again.
const PROBE_BYTES: usize = 64 << 10;

/// The jobs of the next transaction, and the connection it runs on.
pub(crate) struct Group {
    conn: Connection,
    health: Arc<Health>,
    wal: Arc<Wal>,
    seqs: LastSeqs,
    tally: Tally,
    jobs: Vec<Box<dyn Job>>,
    parts: usize,
}

/// A transaction that failed.
enum Failure {
    /// Before its COMMIT: nothing was written.
    Before(rusqlite::Error),
    /// At its COMMIT.
    AtCommit(rusqlite::Error),
}

impl Group {
    pub(crate) fn new(conn: Connection, health: Arc<Health>, wal: Arc<Wal>) -> Self {
        let (seqs, tally) = (LastSeqs::default(), Tally::default());
        Self { conn, health, wal, seqs, tally, jobs: Vec::new(), parts: 0 }
    }

    pub(crate) fn add(&mut self, job: Box<dyn Job>) {
        self.parts += job.parts();
        self.jobs.push(job);
    }

    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    pub(crate) fn is_full(&self) -> bool {
        self.health.is_full()
    }

    /// Commits all jobs and answers them.
    pub(crate) fn commit(&mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        let parts = std::mem::take(&mut self.parts);
        if let Err(error) = self.together(&mut jobs, parts) {
            fail_all(&mut jobs, &error);
        }
        // The vector goes back, so that its room is not allotted again for each group.
        for job in jobs.drain(..) {
            job.answer();
        }
        self.jobs = jobs;
    }

    /// All in one transaction; one by one where one of them spoils it for the others.
    fn together(&mut self, jobs: &mut [Box<dyn Job>], parts: usize) -> Result<(), Error> {
        if jobs.is_empty() {
            return Ok(());
        }
        // Also what was queued before the trouble is refused: nothing touches a failing disk again.
        self.health.writable()?;
        let all = self.transaction(|tx| {
            jobs.iter_mut().try_for_each(|job| (0..job.parts()).try_for_each(|part| job.run(part, tx)))
        });
        match all {
            Ok(()) => {
                self.wal.committed(parts);
                Ok(())
            }
            Err(Failure::Before(source)) if parts > 1 && spoils_others(&source) => {
                self.one_by_one(jobs);
                Ok(())
            }
            Err(failure) => Err(self.error(&failure)),
        }
    }

    fn one_by_one(&mut self, jobs: &mut [Box<dyn Job>]) {
        for job in jobs {
            for part in 0..job.parts() {
                let done = self.health.writable().and_then(|()| {
                    self.transaction(|tx| job.run(part, tx)).map_err(|failure| self.error(&failure))
                });
                match done {
                    Ok(()) => self.wal.committed(1),
                    Err(error) => job.fail(part, error),
                }
            }
        }
    }

    fn transaction(&mut self, work: impl FnOnce(&mut Tx<'_>) -> rusqlite::Result<()>) -> Result<(), Failure> {
        let begun = execute(&self.conn, "BEGIN IMMEDIATE");
        let worked = begun.and_then(|()| {
            let mut tx = Tx { conn: &self.conn, seqs: &mut self.seqs, tally: &mut self.tally };
            work(&mut tx)?;
            self.tally.flush(&self.conn)
        });
        let failure = match worked {
            Ok(()) => match execute(&self.conn, "COMMIT") {
                Ok(()) => return Ok(()),
                Err(source) => Failure::AtCommit(source),
            },
            Err(source) => Failure::Before(source),
        };
        self.undo();
        Err(failure)
    }

    /// Rolls back, and forgets what was remembered of the transaction.
    fn undo(&mut self) {
        self.seqs.clear();
        self.tally.clear();
        // SQLite has rolled back by itself after some errors.
        if !self.conn.is_autocommit()
            && let Err(source) = execute(&self.conn, "ROLLBACK")
        {
            self.health.note(&source);
        }
    }

    fn error(&self, failure: &Failure) -> Error {
        match failure {
            Failure::Before(source) => self.health.note(source),
            Failure::AtCommit(source) => match Trouble::of(source) {
                // Without room the last page of the log was not written, and without it the others do not count.
                Trouble::Full | Trouble::Passing => self.health.note(source),
                // The last page may lie on the disk although its sync failed: it counts when the log is read again.
                Trouble::Disk | Trouble::Corrupt | Trouble::Unfit => {
                    self.health.note_cut_off(source);
                    indeterminate(self.health.path(), source)
                }
            },
        }
    }

    /// Looks whether a full disk has room again. What is in the log is copied first, so that it can begin again from its start:
    /// that may be room enough.
    pub(crate) fn probe(&mut self) {
        self.wal.copy(&self.conn, &self.health);
        let body = vec![0; PROBE_BYTES];
        let written = self
            .transaction(|tx| {
                tx.conn.prepare_cached("INSERT INTO probe (body) VALUES (?1)")?.execute([&body]).map(|_| ())
            })
            .and_then(|()| self.transaction(|tx| execute(tx.conn, "DELETE FROM probe")));
        match written {
            Ok(()) => self.health.has_room(),
            Err(failure) => {
                self.error(&failure);
            }
        }
    }

    /// Copies what little the checkpointer left, so that the log can begin again from its start.
    pub(crate) fn checkpoint(&mut self) {
        if self.health.writable().is_ok() {
            self.wal.copy(&self.conn, &self.health);
        }
    }
}

/// Whether the error may be of one part alone.
fn spoils_others(source: &rusqlite::Error) -> bool {
    match Trouble::of(source) {
        Trouble::Corrupt | Trouble::Unfit => true,
        Trouble::Passing | Trouble::Full | Trouble::Disk => false,
    }
}

fn fail_all(jobs: &mut [Box<dyn Job>], error: &Error) {
    for job in jobs {
        for part in 0..job.parts() {
            job.fail(part, error.clone());
        }
    }
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(|_| ())
}
