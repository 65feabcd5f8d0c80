//! The runtime of amends: it drives sagas, and never does anything before it is durable.
//!
//! [`Engine`] is the handle. Inside, one task drives each saga in flight (`saga`): input → decide → commit → effects. A
//! committer gathers what all of them want to write; a scheduler claims what becomes due; recovery takes over what lapsed
//! nodes left behind; a keeper keeps the node's lease. Stores, participants, clocks and randomness come from outside, so that
//! a simulation can run the real engine.

mod api;
mod clock;
mod committer;
mod config;
mod definitions;
mod engine;
mod health;
mod histogram;
mod keeper;
mod lease;
mod meter;
mod metrics;
mod node;
mod people;
mod persist;
mod random;
mod read;
mod recovery;
mod register;
mod registry;
mod retention;
mod row;
mod saga;
mod scheduler;
mod submit;
mod waiters;

pub use api::{DefinitionText, JournalPage, Refused, Registered, Start, Started, View};
pub use clock::{Clock, SystemClock};
pub use config::{Config, Limits, Times};
pub use engine::{Engine, StartError};
pub use health::{Gauges, Health};
pub use histogram::HistogramView;
pub use metrics::{CallLabels, Metrics, SagaCounts};
pub use people::EVENT_ID_BYTES_MAX;
