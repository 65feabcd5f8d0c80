//! What carries out an effect: calls to participants over HTTP.
//!
//! [`Participants`] implements the port [`Caller`] for the `[participants.NAME]` of `amends.toml`. A call is sent at most once:
//! there are no hidden retries and no redirects, and for each call it is known, not guessed, whether a byte of it may have left.

mod address;
pub mod breaker;
pub mod config;
mod gate;
mod head;
mod limit;
mod link;
mod participants;
mod pool;
pub mod port;
mod retry_after;
pub mod signature;
mod site;
mod tls;
mod trace;
mod value;

pub use breaker::BreakerState;
pub use config::{ParticipantConfig, Problem};
pub use participants::{CallbackUrl, ParticipantState, Participants, Settings};
pub use port::{Called, Caller, Clock, HeldReason, LeaseCheck, Outgoing};
pub use signature::{SigningKey, Unverified};
pub use value::{EnvLookup, VALUE_BYTES_MAX, Value};
