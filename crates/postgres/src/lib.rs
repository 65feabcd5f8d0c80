//! The store of amends in PostgreSQL, shared by several engines.
//!
//! ```no_run
//! # async fn open() -> Result<(), amends_store::Error> {
//! let store = amends_postgres::PostgresStore::open("postgres://amends@localhost/amends").await?;
//! # Ok(()) }
//! ```
//!
//! # How it works
//!
//! - **A batch is one round trip** as long as everything is as its items expect: its items are decided here on what it will find, and one call of
//!   the function `amends.commit_expected` looks, locks rows in the order of their numbers, and writes. That takes the server a quarter to a third
//!   less time than the same as statements.
//! - **Otherwise it is one transaction of two round trips**: the rows it concerns are locked and looked at, the items are decided here, and
//!   everything they write goes as a few statements over arrays, with the COMMIT behind them.
//! - **Constraints decide races**: an id or a claim that another transaction took between the look and the write is a unique
//!   violation, upon which nothing of the batch is there, and the whole is tried again. So are deadlocks and serialization failures.
//! - **The hot path appends**: a step done and the next one enabled is one row of the journal. (saga, seq) is its primary key.
//! - **Looking costs what is found**: partial indexes hold what is due, owned, or to be pruned.
//! - **The server's clock** decides leases and what is due.
//! - **Callers begin sagas** in transactions of their own by the function `amends.submit`. One connection more listens for them, once an engine wants
//!   to hear; what it misses is found by looking.
//!
//! # What happens when
//!
//! | what | the store |
//! | --- | --- |
//! | the server cannot be reached | answers `Unavailable`, and connects again by itself |
//! | the connection is lost after COMMIT was sent | answers `Indeterminate`, and never sends it again; `wrote` tells only when that session is gone, and ends it |
//! | the disk is full, or the server takes no writes | takes no new work, and looks every second whether it does again |
//! | settings would lose what was committed (`fsync`, `synchronous_commit`, `full_page_writes`) | is not opened |
//!
//! Everything is in the schema `amends`, which is made when it is missing: the user needs the right to create it, or to use it.
//!
//! # What it does not do
//!
//! - Without `sslmode=verify-full` in the URL it does not look whose certificate the server has.
//! - A standby that is promoted without having all commits makes a loss that nothing here notices: let `synchronous_standby_names` name it.
//! - Through `PgBouncer` it needs session mode: sessions have settings and prepared statements.
//! - Of many sagas that ended it does not know at any moment how many: counts of them may be some seconds old.

mod batch;
mod checks;
mod counts;
mod definitions;
mod error;
mod expected;
mod intake;
mod journal;
mod knock;
mod lists;
mod locks;
mod look;
mod mailbox;
mod migrate;
mod nodes;
mod pool;
mod records;
mod retention;
mod rows;
mod store;
mod tls;
mod unsure;
mod url;
mod work;
mod write;

pub use store::PostgresStore;
pub use url::PostgresUrl;
