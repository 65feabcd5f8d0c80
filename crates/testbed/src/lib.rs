//! Servers for tests: started on private ports and in temporary folders, and ended with the test.
//!
//! Nothing here is part of the product. A server that is not installed is an error that names the package: no test is skipped
//! for want of one. `cargo xtask test` installs them.

mod account;
pub mod mariadb;
mod ports;
pub mod postgres;
mod process;
pub mod redis;
mod template;

pub use process::Process;
