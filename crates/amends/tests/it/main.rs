//! The facade from its outside: typed handlers, an engine that is killed and started again, locks, transactions.

mod calls;
mod crash;
mod cut;
mod definitions;
mod docs;
mod inbox;
mod locks;
mod mariadb;
mod outcomes;
mod paused;
mod postgres;
mod stores;
mod support;
mod unknown;
