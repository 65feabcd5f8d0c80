//! The locks in memory pass the suite: it is what the suite is written against.

use std::sync::Arc;

use amends_store::conformance::locks::LocksFixture;
use amends_store::locks::{Locks, MemoryLocks};
use async_trait::async_trait;

struct Fixture(MemoryLocks);

#[async_trait]
impl LocksFixture for Fixture {
    fn locks(&self) -> Arc<dyn Locks> {
        Arc::new(self.0.clone())
    }

    // Memory has nothing that could be ended: what the suite holds is dropped.
    async fn reopen(&mut self) {}
}

async fn make() -> Fixture {
    Fixture(MemoryLocks::new())
}

amends_store::locks_suite!(make);
