//! What several tests need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_mysql::MySqlStore;
use amends_store::Outcome;
use amends_testbed::mariadb::MariaDb;

pub(crate) async fn open(url: &str) -> Arc<MySqlStore> {
    Arc::new(MySqlStore::open(url).await.unwrap())
}

pub(crate) fn failed(outcome: Outcome) -> amends_store::Error {
    match outcome {
        Outcome::Failed(error) => error,
        Outcome::Submitted(_) | Outcome::Advanced(_) => panic!("it did not fail: {outcome:?}"),
    }
}

/// Waits until something is so. Only what hangs is ended by it.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A session of somebody else's.
pub(crate) async fn stranger(server: &MariaDb) -> mysql_async::Conn {
    mysql_async::Conn::from_url(server.url() + "?prefer_socket=false").await.unwrap()
}

/// How many sessions of the store's wait for what somebody else has locked.
pub(crate) fn waiting(server: &MariaDb, sql: &str) -> u64 {
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'amends' AND info LIKE '%{sql}%' AND time_ms > 5"
    );
    server.ask(&waiting).unwrap().parse().unwrap()
}
