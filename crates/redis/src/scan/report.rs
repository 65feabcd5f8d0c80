//! What a scan did.

use std::time::Duration;

use crate::client::Error;
use crate::log::BusinessId;

/// What a scan did. Where several scanners work at once, what one did may be counted by the others too.
#[derive(Debug, Default)]
pub struct Report {
    /// Records that are undone.
    pub compensated: u64,
    /// Records that turned out to be committed, or gone.
    pub settled_by_others: u64,
    /// Records whose rollback was refused and is tried again later.
    pub postponed: u64,
    /// Records of other programs that are looked after from now on.
    pub adopted: u64,
    /// Settled records that were removed after the retention.
    pub removed: u64,
    /// Records that became dead letters: they need a person.
    pub parked: Vec<Parked>,
    /// What could not be done, and is tried again.
    pub failures: Vec<Failure>,
    /// Whether more was due than one pass handles.
    pub left: bool,
    /// When the next record becomes due, from the end of the scan on.
    pub next_due: Option<Duration>,
}

/// A record that became a dead letter.
#[derive(Debug)]
pub struct Parked {
    /// Its business id.
    pub id: BusinessId,
    /// Why no machine can undo it.
    pub reason: String,
}

/// Something that could not be done.
#[derive(Debug)]
pub struct Failure {
    /// With what: a business id or a key.
    pub what: String,
    /// Why.
    pub error: Error,
}

impl Report {
    /// Whether it did nothing, and nothing went wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.compensated + self.settled_by_others + self.postponed + self.adopted + self.removed == 0
            && self.parked.is_empty()
            && self.failures.is_empty()
    }
}
