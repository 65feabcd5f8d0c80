//! Against a real server.

mod expected;
mod faults;
mod intake;
mod locks;
mod open;
mod store;
mod tls;
mod way;
