//! What can go wrong in a store, by what the caller should do about it.

/// What kind of trouble it is: what a caller acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing was written; trying again later may help (busy, connection refused, full queue).
    Unavailable,
    /// The answer to a commit was lost: it may or may not have been written. Re-read and compare nonces.
    Indeterminate,
    /// The store cannot be written any more (disk full, read-only, I/O error). Nothing was written by this call; stop claiming.
    Unwritable,
    /// Something stored cannot be read or is inconsistent.
    Corrupt,
    /// The store is used by another engine, or is of a version this one does not know.
    Refused,
}

/// An error of a store: never a conflict, which is an ordinary answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What to act on.
    pub kind: Kind,
    /// What is wrong, where, and what to do, in plain words.
    pub message: String,
}

impl Error {
    /// Makes one.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
