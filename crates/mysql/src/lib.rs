//! The store of amends in MariaDB and MySQL, shared by several engines.
//!
//! ```no_run
//! # async fn open() -> Result<(), amends_store::Error> {
//! let store = amends_mysql::MySqlStore::open("mysql://amends:secret@localhost/amends").await?;
//! # Ok(()) }
//! ```
//!
//! # How it works
//!
//! - **A batch is one transaction of two round trips**: the rows it concerns are locked in the order of their numbers and looked at, the items
//!   are decided here, and everything they write goes as a few statements of many rows, with the COMMIT behind them.
//! - **Constraints decide races**: an id or a claim that another transaction took between the look and the write is a duplicate
//!   key, upon which all is rolled back and tried again. So are deadlocks, and locks that took too long: the server undoes a single statement of the latter, and
//!   the store the rest.
//! - **The hot path appends.** A step done and the next one enabled is one row of the journal. (saga, seq) is its primary key.
//! - **Looking costs what is found.** There are no partial indexes: what is due or owned stands together in one index, apart from what rests, and
//!   columns that are NULL for all others hold what is to be pruned or waits.
//! - **The server's clock** decides leases and what is due.
//! - **Values are never read as SQL**: texts and bytes go as hexadecimal literals, and all columns are of bytes, so that character sets, collations
//!   and modes of the server change nothing.
//!
//! # What happens when
//!
//! | what | the store |
//! | --- | --- |
//! | the server cannot be reached | answers `Unavailable`, and connects again by itself |
//! | the connection is lost after COMMIT was sent | answers `Indeterminate`, and never sends it again; `wrote` tells only when that session is over, and ends it if need be |
//! | the disk is full, or the server takes no writes | takes no new work, and looks every second whether it does again |
//! | settings would lose what was committed (`innodb_flush_log_at_trx_commit`, `sync_binlog` beside a binary log) | is not opened |
//!
//! Databases have no schemas here: the tables are in the database that the URL names, and their names begin with `amends_`. The user needs all rights
//! on that database, and no other.
//!
//! # Why `mysql_async`
//!
//! It sends several statements at once and gives the answer of each, which says whether an error came before the COMMIT or with it; it can ask for
//! rows found rather than changed; and it leaves transactions to its caller. `sqlx` hides the first two behind its own transactions.
//!
//! # What it does not do
//!
//! - Only MariaDB 10.11 is tested. The statements keep to what MySQL 8.0 documents too, but nothing here has run against one, nor against a Galera cluster.
//! - Connections are not encrypted: `require_ssl` in the URL is refused.
//! - A replica that is promoted without having all commits makes a loss that nothing here notices.
//! - Proxies must keep a session on one connection to the server: sessions have settings and locks.
//! - Counts for people look at every row of a saga there is.

mod batch;
mod checks;
mod definitions;
mod error;
mod intake;
mod journal;
mod lists;
mod locks;
mod look;
mod mailbox;
mod migrate;
mod nodes;
mod pool;
mod retention;
mod rows;
mod session;
mod sql;
mod store;
mod transaction;
mod unsure;
mod url;
mod work;
mod write;

pub use store::MySqlStore;
pub use url::MySqlUrl;
