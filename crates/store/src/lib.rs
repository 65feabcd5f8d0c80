//! Storage ports: what a store promises (semantics, section 4), and nothing of how.
//!
//! The ports are small and object-safe. A store takes batches of atomic items and answers each: this is how group
//! commit reaches every backend. Leases bring efficiency; (saga, seq) and fencing bring safety.
//!
//! [`Memory`] is the reference: what it answers is right. With the feature `conformance` come the tests that every store
//! must pass, and a store that fails on purpose, for the tests of those who use one.

pub mod batch;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod intake;
mod item;
pub mod locks;
mod memory;
mod ports;
mod row;
mod writable;

pub use error::{Error, Kind};
pub use intake::{Arrival, Backlog, Intake, Verdict};
pub use item::{Advance, Advanced, Holder, Item, Mail, Outcome, StoredEntry, Submission, Submitted};
pub use memory::Memory;
pub use ports::{Definitions, Gauge, Health, Journal, Lists, Loss, Mailbox, Nodes, Retention, Store, Work};
pub use row::{Cursor, DeadGroup, Due, ListFilter, NodeLease, Page, Row, Stats, Stored, StoredDefinition};
pub use writable::Writable;
