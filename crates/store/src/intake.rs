//! Submissions that callers committed in SQL transactions of their own (rule 13), on their way to become sagas.
//!
//! A caller's transaction writes one row beside its business rows; nothing else tells the engine of it, so that what is rolled back
//! never was. An engine looks for such rows, submits each as any other submission, and removes the row. Killed in between, the next one
//! submits it again, and meets the saga that is there.

use async_trait::async_trait;

use crate::Error;

/// A row that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, in order of arrival; no other row ever has it.
    pub number: u64,
    /// Name of the definition.
    pub saga: String,
    /// The business id.
    pub id: String,
    /// The input, as JSON text.
    pub input: String,
    /// Who wrote it, as far as the database knows.
    pub by: String,
    /// How often it was put off.
    pub tries: u32,
}

impl Arrival {
    /// The most bytes an input may have: as many as the API takes, unless it is set otherwise.
    pub const INPUT_BYTES_MAX: usize = 1 << 20;
}

/// What an engine made of an [`Arrival`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The saga is there, durably: the row goes.
    Adopted,
    /// It cannot become a saga yet: the row stays, with the reason, and is tried again.
    PutOff {
        /// Why, in plain words.
        reason: String,
        /// In how many milliseconds, on the store's clock.
        again_ms: u64,
    },
    /// It can never become a saga: the row stays, with the reason, until a person removes it.
    Refused {
        /// Why, in plain words.
        reason: String,
    },
}

/// What waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Rows that are to become sagas.
    pub waiting: u64,
    /// Those of them that were put off.
    pub put_off: u64,
    /// Rows that can never become sagas.
    pub refused: u64,
    /// The oldest one with a reason, refused ones first: its id and the reason.
    pub example: Option<(String, String)>,
}

/// Rows of callers. Its cost follows what waits, not what exists.
///
/// Where a store's `commit` makes a saga of which such a row waits, with the same definition name and input, it removes the row in the same
/// transaction; with others it answers `Different`: the caller was told first that the id is theirs.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Takes up to `limit` rows that wait and are due, in order of arrival. None of them is given again, to any node, before `hold_ms` have
    /// passed: a node that ends meanwhile delays what it took, and loses nothing.
    async fn take(&self, now: amends_core::Time, hold_ms: u64, limit: usize) -> Result<Vec<Arrival>, Error>;

    /// Writes down what became of rows, by number. A row that is gone is no error, so that a second call changes nothing.
    async fn settle(&self, now: amends_core::Time, verdicts: Vec<(u64, Verdict)>) -> Result<(), Error>;

    /// Makes rows that name this definition, and were put off, due at once.
    async fn retry(&self, now: amends_core::Time, saga: &str) -> Result<(), Error>;

    /// What waits.
    async fn backlog(&self) -> Result<Backlog, Error>;

    /// Returns when a row may have come, or never: only [`Intake::take`] tells. Dropping it loses no more than time.
    async fn knock(&self);
}
