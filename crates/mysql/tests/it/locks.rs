//! Lease locks beside the store.

use std::sync::Arc;

use amends_mysql::MySqlStore;
use amends_store::conformance::locks::LocksFixture;
use amends_store::locks::{Acquired, Ask, KEEP_MS, LockName, Locks, Ttl};
use amends_testbed::mariadb::MariaDb;
use async_trait::async_trait;

struct Fixture {
    server: MariaDb,
    store: Arc<MySqlStore>,
}

#[async_trait]
impl LocksFixture for Fixture {
    fn locks(&self) -> Arc<dyn Locks> {
        self.store.clone()
    }

    async fn reopen(&mut self) {
        self.server.restart().unwrap();
        self.store = Arc::new(MySqlStore::open(&self.server.url()).await.unwrap());
    }
}

async fn make() -> Fixture {
    let server = MariaDb::start().unwrap();
    let store = Arc::new(MySqlStore::open(&server.url()).await.unwrap());
    Fixture { server, store }
}

amends_store::locks_suite!(make);

async fn take(store: &MySqlStore, name: &str) -> u64 {
    let ask = Ask::new(LockName::new(name).unwrap(), Ttl::from_ms(60_000).unwrap());
    match store.acquire(&ask).await.unwrap() {
        Acquired::Held(granted) => granted.token,
        Acquired::Busy(busy) => panic!("{name} is busy: {busy:?}"),
    }
}

#[tokio::test]
async fn a_lock_nobody_used_for_a_week_is_forgotten_but_its_token_is_not() {
    let Fixture { server, store } = make().await;
    let rows = || server.ask("SELECT count(*) FROM amends_lock").unwrap();
    for n in 0..6 {
        take(&store, &format!("order:{n}")).await;
    }
    // A token that ran far ahead of the clock, which alone would not protect it.
    let ahead = KEEP_MS * 100;
    let almost = KEEP_MS - 3_600_000;
    server
        .ask(&format!("UPDATE amends_lock SET expires_at = expires_at - {almost}, token = token + {ahead}"))
        .unwrap();
    take(&store, "new").await;
    assert_eq!(rows(), "7", "less than a week has passed");
    server.ask("UPDATE amends_lock SET expires_at = expires_at - 3700000 WHERE name <> 'new'").unwrap();
    let highest: u64 = server.ask("SELECT max(token) FROM amends_lock").unwrap().parse().unwrap();
    // Each acquisition removes two and adds one at most.
    for n in 0..3 {
        assert!(take(&store, &format!("another:{n}")).await > ahead);
    }
    assert_eq!(rows(), "4");
    let again = take(&store, "order:5").await;
    assert!(again > highest, "{again} after {highest}");
}
