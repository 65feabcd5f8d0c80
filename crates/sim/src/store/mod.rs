//! The store as nodes see it: the memory store behind a line on which everything goes wrong.

mod faults;
mod lies;
mod port;

pub(crate) use faults::{Call, Fault, Plan, Rates};
pub(crate) use port::Port;
