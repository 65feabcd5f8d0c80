//! The memory store passes the suite: it is what the suite is written against.

use std::sync::Arc;

use amends_store::Memory;
use amends_store::conformance::Fixture;

async fn make() -> Fixture {
    Fixture::new(Arc::new(Memory::new()), ())
}

amends_store::conformance_suite!(make);
