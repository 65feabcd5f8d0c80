//! Lease locks: short mutual exclusion with a fencing token that only grows.
//!
//! A lock excludes others and does nothing else: it neither undoes nor recovers. Who is paused past its lease does not know it, so
//! that a lock alone protects nothing: the resource has to refuse a token lower than the highest it has seen. The port is [`Locks`];
//! [`Lease`] and [`hold`] are the holder's side of it, over any backend; [`MemoryLocks`] is the reference.

mod clock;
mod hold;
mod lease;
mod memory;
mod port;
pub mod rules;
mod words;

pub use clock::{Steady, running_ms};
pub use hold::{HoldError, Worked, hold};
pub use lease::{Lease, LeaseOver, margin_ms};
pub use memory::MemoryLocks;
pub use port::{
    Acquired, Ask, Because, Busy, Granted, HeldBy, Hold, LastRelease, LockView, Locks, Lost, Release, Renewal,
};
pub use words::{
    KEEP_MS, LABEL_BYTES_MAX, Label, LockName, Malformed, NAME_BYTES_MAX, OWNER_BYTES_MAX, Owner,
    REASON_BYTES_MAX, TOKEN_MAX, TTL_MS_MAX, TTL_MS_MIN, Ttl,
};
