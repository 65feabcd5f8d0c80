//! The pure core of amends: what a saga is and how it moves.
//!
//! Nothing in this crate performs I/O, reads a clock or draws a random number. Time and jitter arrive inside
//! [`Input`]s; what must be written leaves as [`Entry`]s and what must be done as [`Effect`]s. [`decide()`] computes
//! both; [`apply()`] is the only way in which a [`Saga`] changes, shared by the live run, recovery, exploration and
//! tests. The rules are numbered as in the project's semantics.

pub mod answer;
mod apply;
mod call;
pub mod decide;
pub mod definition;
mod effect;
mod entry;
mod id;
mod input;
mod jitter;
pub mod json;
pub mod request;
mod saga;
pub mod status;
pub mod template;
mod time;

pub use answer::{Answer, Outcome, QueryOutcome};
pub use apply::{Unreadable, apply, replay};
pub use call::for_call;
pub use decide::{Decision, Problem, Refusal, decide, submit};
pub use definition::Definition;
pub use effect::{CallId, Effect, wanted};
pub use entry::{By, Entry, EntryKind, UndoReason};
pub use id::{BadId, Key, OpKind, OpRef, SAGA_ID_BYTES_MAX, SagaId, parse_key};
pub use input::{Evidence, Input, Now, Person, PersonAction, Submission};
pub use jitter::Jitter;
pub use saga::{
    Accepting, Direction, Ended, Knowledge, OpState, ParkReason, Phase, Saga, Settled, StepState,
};
pub use status::{BusinessState, Status, StepStatus};
pub use time::Time;
