//! The suite that every store must pass.

use std::sync::Arc;

use amends_mysql::MySqlStore;
use amends_store::conformance::Fixture;
use amends_testbed::mariadb::MariaDb;

async fn make() -> Fixture {
    let server = MariaDb::start().unwrap();
    let store = MySqlStore::open(&server.url()).await.unwrap();
    Fixture::new(Arc::new(store), server)
}

amends_store::conformance_suite!(make);
