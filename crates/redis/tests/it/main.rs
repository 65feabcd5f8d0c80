//! Against real servers.

mod client;
mod log_commands;
