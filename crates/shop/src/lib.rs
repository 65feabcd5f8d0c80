//! The shop that `amends demo` and the torture harness run.
//!
//! Three participants (inventory, payment, shipping) that each keep what they declare across their own crashes, with their
//! ledgers on disk; orders drawn from a seed, with what business refuses and people cancel; faults drawn for each request;
//! and the comparison of every ledger with every saga at the end. It knows participants and sagas as the wire shows them, and
//! nothing of the engine.

mod books;
mod draw;
mod faults;
mod ledger;
mod participant;
mod plan;
mod ports;
mod shop;

pub use books::{Verdict, compare, has_ended};
pub use draw::Draw;
pub use faults::Fault;
pub use ledger::{Lie, Line, Operation, read};
pub use participant::{CALM, Met, Options, Participant};
pub use plan::{DEFINITIONS, Order, TIMEOUT, order, orders};
pub use ports::{Address, free_address};
