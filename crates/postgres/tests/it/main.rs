//! Against a real server.

mod faults;
mod open;
mod store;
mod way;
