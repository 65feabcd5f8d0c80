//! What SQLite's errors mean to a caller.

use std::path::Path;

use amends_store::{Error, Kind};
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_NOMEM};

/// What happened, by what it asks of the store as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Busy, out of memory, interrupted: nothing is wrong with the file.
    Passing,
    /// The disk, or the limit of pages, is full.
    Full,
    /// The disk fails, or forbids writing. A sync that failed once must not be tried again: what it should have
    /// written may be gone although the next one succeeds.
    Disk,
    /// A page cannot be right.
    Corrupt,
    /// A value that SQLite cannot hold.
    Unfit,
}

impl Trouble {
    /// Sorts an error.
    pub(crate) fn of(error: &rusqlite::Error) -> Self {
        use rusqlite::Error as E;
        let failure = match error {
            E::SqliteFailure(failure, _) => failure,
            E::ToSqlConversionFailure(_) => return Self::Unfit,
            // All other errors say that a stored value is not what the tables promise.
            _ => return Self::Corrupt,
        };
        if failure.extended_code == SQLITE_IOERR_NOMEM {
            return Self::Passing;
        }
        if failure.extended_code == SQLITE_IOERR_CORRUPTFS {
            return Self::Corrupt;
        }
        match failure.code {
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted => Self::Passing,
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::NoLargeFileSupport => Self::Disk,
            ErrorCode::TooBig => Self::Unfit,
            // A broken constraint is one too: everything is checked before it is written.
            _ => Self::Corrupt,
        }
    }

    /// What the caller of a statement that failed is told.
    pub(crate) fn error(self, path: &Path, source: &rusqlite::Error) -> Error {
        let file = path.display();
        match self {
            Self::Passing => Error::new(
                Kind::Unavailable,
                format!("{file} cannot be used at the moment: {source}; try again"),
            ),
            Self::Full => Error::new(
                Kind::Unwritable,
                format!(
                    "{file} has no room left: {source}; free space on its disk, then the store goes on by itself"
                ),
            ),
            Self::Disk => Error::new(
                Kind::Unwritable,
                format!(
                    "{file} cannot be written: {source}; nothing more is written until a restart: check the disk, the \
                     permissions and the system's log, then start again"
                ),
            ),
            Self::Corrupt => Error::new(
                Kind::Corrupt,
                format!(
                    "{file} is damaged: {source}; no new work is taken: stop, keep a copy of the file and of its -wal, and \
                     restore a backup or try sqlite3's .recover"
                ),
            ),
            Self::Unfit => Error::new(Kind::Refused, format!("{file} cannot hold such a value: {source}")),
        }
    }
}

/// What a caller is told whose commit was cut off at its very end.
pub(crate) fn indeterminate(path: &Path, source: &rusqlite::Error) -> Error {
    let message = format!(
        "{} failed while committing: {source}; whether this was written shows when the store is opened again: check the \
         disk, then restart",
        path.display()
    );
    Error::new(Kind::Indeterminate, message)
}
