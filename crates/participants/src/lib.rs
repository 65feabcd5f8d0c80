//! What carries out an effect: calls to participants, over HTTP or through a [`Driver`].
//!
//! [`Participants`] implements the port [`Caller`] for the `[participants.NAME]` of `amends.toml`. A call is sent at most once:
//! there are no hidden retries, no redirects and no proxies, and of each call it is known, not guessed, whether a byte of it may
//! have left. What an answer means is not decided here: [`Answer`](amends_core::Answer)s go to the core as they came.
//!
//! A call passes through these, in order:
//!
//! 1. the values that configuration takes from variables and files: if one is missing, the call is misconfigured;
//! 2. the concurrency limit, then the [`breaker`]: either may hold the call back, which uses no attempt;
//! 3. an idle connection, or a new one: what fails so far was not sent;
//! 4. right before each socket write, the lease (rule 1): if it lapsed before the first, nothing was sent;
//! 5. the answer, whole and within its limits, or the call is lost: time-out, reset, oversized body.
//!
//! It speaks HTTP/1.1. Secrets are in types that do not show them, and are wiped from memory when dropped.
//!
//! Measured with `examples/throughput.rs`, client and service sharing two cores with other work, 64 calls in flight: about
//! 50,000 calls a second, and 1.2 times the processor time of bare hyper with the same headers (24 against 20 µs, both sides
//! included).

mod address;
pub mod breaker;
pub mod config;
mod door;
mod driven;
mod driver;
mod gate;
mod head;
mod limit;
mod link;
mod local;
mod participants;
mod pool;
pub mod port;
mod reach;
mod retry_after;
pub mod signature;
mod site;
mod tls;
mod trace;
mod value;

pub use breaker::BreakerState;
pub use config::{ParticipantConfig, Problem};
pub use driver::{Driver, Remote, UrlSource};
pub use gate::Pass;
pub use local::{LOCAL_PREFIX, Local, LocalParticipant};
pub use participants::{CallbackUrl, ParticipantState, Participants, Settings};
pub use port::{Called, Caller, Clock, HeldReason, LeaseCheck, Outgoing};
pub use retry_after::retry_after_ms;
pub use signature::{SigningKey, Unverified};
pub use value::{EnvLookup, VALUE_BYTES_MAX, Value};
