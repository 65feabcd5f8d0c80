//! The store as a value, and how it is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use amends_store::{Error, Gauge, Health};
use tokio::task::AbortHandle;

use crate::counts::Ended;
use crate::error::Call;
use crate::knock::Knocks;
use crate::pool::Pool;
use crate::unsure::Unsure;
use crate::url::PostgresUrl;
use crate::{checks, migrate};

/// How often a store that takes no writes is looked at again.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Writes as much as a small commit, and leaves nothing. No two bytes alike: the server would make it small, and find room where there is none.
const PROBE: &str = "WITH written AS (
        INSERT INTO amends.probe (body) SELECT decode(string_agg(md5(random()::text), ''), 'hex') FROM generate_series(1, 500) RETURNING 1)
    SELECT count(*) FROM written";

const UNPROBE: &str = "DELETE FROM amends.probe";

/// A store in a PostgreSQL database, which several engines may share.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) pool: Arc<Pool>,
    pub(crate) unsure: Unsure,
    pub(crate) commits: AtomicU64,
    pub(crate) items: AtomicU64,
    pub(crate) ended: Ended,
    pub(crate) knocks: Knocks,
    probe: AbortHandle,
}

impl PostgresStore {
    /// Opens a store, making or updating its tables if needed. `url`: as [`PostgresUrl`] says.
    ///
    /// # Errors
    /// [`amends_store::Kind::Refused`] for a URL that is none, a server whose settings would lose what it committed, a replica, or tables of a later version;
    /// [`amends_store::Kind::Unavailable`] if the server cannot be reached; [`amends_store::Kind::Unwritable`] if it lets this user not write. The message says what to do.
    pub async fn open(url: &str) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(Self::read_url(url)?));
        let conn = pool.take().await?;
        checks::run(conn.client()).await?;
        migrate::run(conn.client()).await?;
        conn.done();
        let probe = tokio::spawn(probe(Arc::clone(&pool))).abort_handle();
        let (commits, items) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self {
            pool,
            unsure: Unsure::default(),
            commits,
            items,
            ended: Ended::default(),
            knocks: Knocks::default(),
            probe,
        })
    }

    /// Reads a URL. What it says is not repeated in the error: it may hold a password.
    ///
    /// # Errors
    /// [`amends_store::Kind::Refused`].
    pub fn read_url(url: &str) -> Result<PostgresUrl, Error> {
        PostgresUrl::read(url)
    }
}

/// Looks, while the store takes no writes, whether it does again.
async fn probe(pool: Arc<Pool>) {
    loop {
        pool.health.fell_ill.notified().await;
        while pool.health.takes_work().is_err() {
            tokio::time::sleep(PROBE_EVERY).await;
            let written = pool.query(Call::Writes, PROBE, &[]).await;
            if written.is_ok() && pool.query(Call::Writes, UNPROBE, &[]).await.is_ok() {
                pool.health.is_well();
            }
        }
    }
}

impl Health for PostgresStore {
    fn health(&self) -> Result<(), Error> {
        self.pool.health.takes_work()
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge =
            |name, help, value: &AtomicU64| Gauge { name, help, value: value.load(Ordering::Relaxed) };
        vec![
            gauge(
                "commits_total",
                "Transactions that committed items since the store was opened.",
                &self.commits,
            ),
            gauge("commit_items_total", "Items that they consisted of.", &self.items),
        ]
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.probe.abort();
    }
}
