//! Against a real server.

mod faults;
mod intake;
mod locks;
mod open;
mod store;
mod tls;
mod way;
