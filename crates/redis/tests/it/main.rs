//! Against real servers.

mod client;
