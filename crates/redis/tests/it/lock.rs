//! The suite that every backend of locks must pass: by functions and by scripts, over the end of the server.

use std::sync::Arc;

use amends_redis::{Options, RedisLocks};
use amends_store::conformance::locks::LocksFixture;
use amends_store::locks::Locks;
use amends_testbed::redis::Redis;
use async_trait::async_trait;

struct Fixture {
    server: Redis,
    url: String,
    locks: RedisLocks,
}

impl Fixture {
    async fn of(server: Redis, url: String) -> Self {
        let locks = RedisLocks::connect(&url, Options::default()).await.unwrap();
        Self { server, url, locks }
    }
}

#[async_trait]
impl LocksFixture for Fixture {
    fn locks(&self) -> Arc<dyn Locks> {
        Arc::new(self.locks.clone())
    }

    async fn reopen(&mut self) {
        self.server.kill();
        self.server.restart().unwrap();
        self.locks = RedisLocks::connect(&self.url, Options::default()).await.unwrap();
    }
}

mod functions {
    use super::*;

    async fn make() -> Fixture {
        let server = Redis::start().unwrap();
        let url = server.url();
        Fixture::of(server, url).await
    }

    amends_store::locks_suite!(make);
}

mod scripts {
    use super::*;

    async fn make() -> Fixture {
        // The user is in the configuration, so that it is there after a restart.
        let settings =
            [amends_testbed::redis::DURABLE, &[("user", "app on >pw ~* +@all -function -fcall -fcall_ro")]]
                .concat();
        let server = Redis::with(&settings).unwrap();
        let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
        Fixture::of(server, url).await
    }

    amends_store::locks_suite!(make);
}
