//! Against real servers.

mod client;
mod doctor;
mod lock;
mod lock_faults;
mod lock_paused;
mod log;
mod log_commands;
mod log_faults;
mod participant;
mod participant_faults;
mod scan;
mod store;
mod store_faults;
mod store_losses;
mod store_rows;
mod store_support;
