//! Transactions of rusqlite, on the file of the embedded store. They answer at once: call them where blocking is allowed.

use rusqlite::ffi;
use rusqlite::{DropBehavior, ErrorCode, OptionalExtension as _, Transaction as Sqlite};

use super::pending::{committed, not_submitted, rolled_back, unsure};
use super::port::sealed::Sealed;
use super::{CommitFailed, NotSubmitted, Pending, Submission, SubmitError, Transaction};
use crate::locks::{Covered, Held};

const SUBMIT: &str = "INSERT INTO amends_submission (saga, id, input) VALUES (?1, ?2, ?3)";

// Asked once the transaction writes: from then on nobody else can take the lock before it has ended.
const LOCK: &str = "SELECT 1 FROM lock WHERE name = ?1 AND token = ?2 AND ended IS NULL";

impl Sealed for Sqlite<'_> {}

impl Transaction for Sqlite<'_> {
    type Answer<'a, R: 'a>
        = R
    where
        Self: 'a;

    fn submit(&mut self, submission: Result<Submission, SubmitError>) -> Result<(), SubmitError> {
        submit(self, &submission?)
    }

    fn submit_held<'a>(
        mut self,
        held: Held,
        submission: Result<Submission, SubmitError>,
    ) -> Result<Pending<Self>, NotSubmitted>
    where
        Self: 'a,
    {
        // Whatever its owner has set: what is dropped here must not be committed.
        self.set_drop_behavior(DropBehavior::Rollback);
        let submitted = submission.and_then(|submission| {
            prove(&self, &held, &submission)?;
            Ok(submission)
        });
        match submitted {
            Ok(submission) => Ok(Pending::new(self, held, submission)),
            Err(error) => {
                drop(self);
                Err(not_submitted(held, error))
            }
        }
    }

    fn commit_pending<'a>(pending: Pending<Self>) -> Result<Covered, CommitFailed>
    where
        Self: 'a,
    {
        let (mut tx, held, submission) = pending.into_parts();
        tx.set_drop_behavior(DropBehavior::Rollback);
        if let Err(error) = prove(&tx, &held, &submission) {
            drop(tx);
            return Err(CommitFailed::RolledBack(not_submitted(held, error)));
        }
        match tx.commit() {
            Ok(()) => Ok(committed(held, submission)),
            // The transaction was still open, and dropping it has rolled it back.
            Err(error) if was_refused(&error) => {
                Err(CommitFailed::RolledBack(not_submitted(held, SubmitError::Database(error.into()))))
            }
            Err(error) => Err(unsure(held, submission, error.into())),
        }
    }

    fn roll_back_pending<'a>(pending: Pending<Self>) -> Held
    where
        Self: 'a,
    {
        let (mut tx, held, _) = pending.into_parts();
        tx.set_drop_behavior(DropBehavior::Rollback);
        drop(tx);
        rolled_back(held)
    }
}

/// Writes the submission, or finds that it is there, and then looks whether the lock is still held.
fn prove(tx: &Sqlite<'_>, held: &Held, submission: &Submission) -> Result<(), SubmitError> {
    submit(tx, submission)?;
    if held.is_fenced_by_resource() {
        return Ok(());
    }
    let (name, token) = (held.name(), held.token());
    let found = tx
        .prepare_cached(LOCK)
        .and_then(|mut look| look.query_row((name, token.cast_signed()), |_| Ok(())).optional());
    match found {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err(SubmitError::LockLost { token }),
        Err(error) => Err(SubmitError::Database(error.into())),
    }
}

fn submit(tx: &Sqlite<'_>, submission: &Submission) -> Result<(), SubmitError> {
    let Submission { saga, id, input, .. } = submission;
    let written = tx.prepare_cached(SUBMIT).and_then(|mut insert| insert.execute((saga, id.as_str(), input)));
    match written {
        Ok(_) => Ok(()),
        Err(error) if is_from_trigger(&error) => {
            Err(SubmitError::Refused { id: id.clone(), reason: words(&error) })
        }
        Err(error) => Err(SubmitError::Database(error.into())),
    }
}

/// The table's triggers refuse what is no submission, and what conflicts with another one.
fn is_from_trigger(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_CONSTRAINT_TRIGGER)
}

fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(words)) => words.clone(),
        error => error.to_string(),
    }
}

/// Whether a COMMIT that failed so has left the transaction open. After any other error, of the disk above all, nobody knows.
fn was_refused(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ConstraintViolation)
    )
}
