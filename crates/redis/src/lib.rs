//! Redis for amends: what an application with nothing but Redis can rely on, and what sagas do there.
//!
//! Everything that changes anything is one call of a Redis function, which validates all before it writes the first byte.

mod client;
mod commands;
pub mod doctor;
mod lock;
mod participant;
mod store;

pub use client::{Client, Error, ErrorKind, Function, Library, Options, SLOTS, slot};
pub use commands::{BYTES_MAX, COMMANDS_MAX, Command, Commands, Guard, Malformed, WORDS_MAX, check_slots};
pub use lock::{KEY_PREFIX as LOCK_KEY_PREFIX, LOCK_LIBRARY, RedisLocks};
pub use participant::{FENCE_KEY_PREFIX, FENCE_LIBRARY, RedisDriver, RedisParticipant};
pub use store::{RedisStore, STORE_LIBRARIES, StoreOptions, Wait};
