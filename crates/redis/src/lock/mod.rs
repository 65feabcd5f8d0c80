//! Lease locks in Redis: one hash a lock, one function call a step. `docs/locks.md` has the layout for other languages.

mod answer;
mod backend;
mod library;

pub use backend::RedisLocks;
pub use library::{KEY_PREFIX, LOCK_LIBRARY};
