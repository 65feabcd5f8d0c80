//! Redis for amends: what an application with nothing but Redis can rely on, and what sagas do there.
//!
//! Everything that changes anything is one call of a Redis function, which validates all before it writes the first byte.

mod client;
mod commands;
pub mod doctor;
mod libraries;
mod lock;
mod log;
mod participant;
mod scan;
mod store;

pub use client::{Client, Error, ErrorKind, Function, Library, Options, SLOTS, slot};
pub use commands::{BYTES_MAX, COMMANDS_MAX, Command, Commands, Guard, Malformed, WORDS_MAX, check_slots};
pub use libraries::LIBRARIES;
pub use lock::{KEY_PREFIX as LOCK_KEY_PREFIX, LOCK_LIBRARY, RedisLocks};
pub use log::{
    Answer, Begin, Begun, BusinessId, Commit, Compensate, ID_BYTES_MAX, Intent, LIST_MAX, LOG_LIBRARY,
    Listed, Log, Reason, Record, Refusal, Status, TIMEOUT_DEFAULT, TIMEOUT_MAX, Which,
};
pub use participant::{FENCE_KEY_PREFIX, FENCE_LIBRARY, RedisDriver, RedisParticipant};
pub use scan::{Failure, Parked, Report, ScanOptions, Scanner};
pub use store::{RedisStore, STORE_LIBRARIES, StoreOptions, Wait};
