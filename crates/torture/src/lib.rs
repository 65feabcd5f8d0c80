//! Torture: the real binary `amends`, as a child process, on a real store, while everything around it fails.
//!
//! The engine is killed, stopped past its lease and continued, and its disk is full, read-only or broken; connections to
//! participants are delayed, reset, cut, half open or one way. Participants are this process's own and keep what they declare in
//! ledgers on disk. In the end every ledger is compared with every saga.
//!
//! - [`kills`] runs long: orders without pause, the engine killed again and again, a report of what was lost, doubled or wrongly
//!   undone.
//! - [`faults`] are single, named faults, each with its expected result.
//! - [`waiting`] are those that need a store or a participant which amends does not have yet.
//!
//! A store joins with an arm in each method of [`store::StoreUrl`]. Every process is on loopback and ended by its number.

pub mod api;
pub mod engine;
pub mod faults;
pub mod ground;
pub mod kills;
mod load;
pub mod nodes;
pub mod patience;
pub mod proxy;
pub mod report;
pub mod script;
pub mod servers;
pub mod shops;
pub mod small_disk;
pub mod store;
pub mod waiting;
pub mod wire;
