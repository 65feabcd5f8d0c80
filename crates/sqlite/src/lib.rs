//! The embedded store of amends: one SQLite file, one writer thread, group commit.
//!
//! ```no_run
//! # fn main() -> Result<(), amends_store::Error> {
//! let path = amends_sqlite::path_from_url("sqlite://amends.db")?;
//! let store = amends_sqlite::SqliteStore::open(path, amends_sqlite::Options::default())?;
//! # Ok(()) }
//! ```
//!
//! # How it works
//!
//! - **One thread writes**, on the only connection that does. It commits everything that waits for it in one transaction: while one is
//!   on its way to the disk the next group forms, without a timer. An answer is sent after its COMMIT, which is synced.
//! - **The hot path appends**: a step done and the next one enabled is one insert into the journal. That its `seq` is the next
//!   one is known from a bounded memory of what is in flight, or looked up. Rows of sagas are written when they are submitted, parked, taken
//!   over, and when they end.
//! - **Looking costs what is found**: partial indexes hold what is due, owned, dead or to be pruned; counts are kept in
//!   the transaction that changes them. A backlog that is not due costs neither time nor memory.
//! - **Reads** run on a few connections of their own, in short transactions.
//! - **Other programs** may begin sagas by inserts into `amends_submission`, in transactions of their own. While one of those is open,
//!   commits wait for it.
//! - **The log** is copied into the database by a thread of its own, in large parts, and emptied when the store is idle.
//!
//! # What happens when
//!
//! | what | the store |
//! | --- | --- |
//! | the process is killed, or the power fails | has everything that was answered |
//! | the disk is full | writes nothing more, reads on, and looks every few seconds whether there is room again |
//! | a write or sync fails, or the file may not be written | writes nothing more until it is opened again; a commit that was on its way is `Indeterminate`, and `wrote` cannot tell before that |
//! | a page is damaged | fails what needs it, naming the saga; takes no new work, but writes what is in flight |
//! | a second engine opens the file | refuses it, by a lock that ends with the process |
//!
//! The first two errors say so from [`health`](amends_store::Health::health) too, as do all that follow while the state lasts.
//! `synchronous=FULL` asks the disk to keep what it says it has; a disk that lies about it can lose the last commits.
//!
//! # Figures
//!
//! `cargo run --release -p amends-sqlite --example commit_bench` on two cores that other programs were using as well, so that
//! they are a lower bound (entries of 250 bytes; a saga is submitted with a claim, two steps are done, the third ends it: four items):
//!
//! | callers | items/s | sagas/s | items a commit | p50 | CPU an item, callers included |
//! | --- | --- | --- | --- | --- | --- |
//! | 1 | 2,700 | 680 | 1.0 | 0.31 ms | 260 µs, most of it the sync's |
//! | 16 | 21,000 | 5,300 | 8.6 | 0.67 ms | 36 µs |
//! | 128 | 67,000 | 16,900 | 109 | 1.6 ms | 15 µs |
//!
//! At full load the log stays near the 64 MiB at which it is copied. Room that retention frees is used again; the file does
//! not shrink.
mod advance;
mod batch;
#[cfg(test)]
mod cost;
mod create;
mod definitions;
mod error;
mod filesystem;
mod health;
mod intake;
mod journal;
mod lists;
mod lock;
mod locks;
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
