//! The suite that every store must pass.

use std::sync::Arc;

use amends_postgres::PostgresStore;
use amends_store::conformance::Fixture;
use amends_testbed::postgres::Postgres;

async fn make() -> Fixture {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    Fixture::new(Arc::new(store), server)
}

amends_store::conformance_suite!(make);
