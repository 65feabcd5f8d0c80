//! The facade from its outside: typed handlers, an engine that is killed and started again, locks, transactions.

mod calls;
mod crash;
mod definitions;
mod outcomes;
mod support;
mod unknown;
