//! Against a real server.

mod faults;
mod full;
mod intake;
mod locks;
mod open;
mod races;
mod store;
mod support;
mod way;
