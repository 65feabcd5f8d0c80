//! The suite that every store must pass, on a server that syncs every write.

use std::sync::Arc;

use amends_redis::{RedisStore, StoreOptions};
use amends_store::conformance::Fixture;
use amends_testbed::redis::Redis;

async fn make() -> Fixture {
    let server = Redis::start().unwrap();
    let store = RedisStore::open(&server.url(), StoreOptions::default()).await.unwrap();
    Fixture::new(Arc::new(store), server)
}

amends_store::conformance_suite!(make);
