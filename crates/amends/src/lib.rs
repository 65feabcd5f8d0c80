#![doc = include_str!("../README.md")]

mod amends;
mod builder;
mod call;
mod dispatch;
mod failure;
mod handle;
mod handler;
#[cfg(any(feature = "inbox-sqlite", feature = "inbox-postgres", feature = "inbox-mysql"))]
pub mod inbox;
pub mod locks;
mod saga;
mod step;
mod store;
mod tree;
mod tx;

#[cfg(feature = "check")]
pub use amends_check as check;
pub use amends_core::definition::{Diagnostic, Idempotency, OnExhausted, OnUnknown, Retry};
pub use amends_core::{By, Definition, Evidence, OpKind, Person, PersonAction, SagaId, Status};
pub use amends_engine::{Config, Engine, Refused, View};
pub use amends_participants::{ParticipantConfig, Problem as ParticipantProblem};
pub use amends_store::{Error as StoreError, Kind as StoreErrorKind};

pub use crate::amends::Amends;
pub use crate::builder::{Builder, StartError};
pub use crate::call::{Call, FactError};
pub use crate::failure::{Failure, Found, Undone};
pub use crate::handle::{Facts, Handle, Outcome};
pub use crate::saga::{Invalid, Saga, SagaBuilder};
pub use crate::step::{NoAction, Step};
#[doc(hidden)]
pub use crate::tx::Submission;
pub use crate::tx::{CommitFailed, NotSubmitted, Pending, SubmitError, Transaction, Unsure, submit_in};
