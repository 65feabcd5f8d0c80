//! The embedded store of amends: one SQLite file, one writer thread, group commit.
mod advance;
mod batch;
#[cfg(test)]
mod cost;
mod create;
mod definitions;
mod error;
mod filesystem;
mod health;
mod journal;
mod lists;
mod lock;
mod mailbox;
mod migrate;
mod nodes;
mod options;
mod page;
mod readers;
mod retention;
mod rows;
mod store;
mod submit;
mod url;
mod wal;
mod work;
mod writer;

pub use options::Options;
pub use store::SqliteStore;
pub use url::path_from_url;
