//! The suite that every store must pass.

use std::sync::Arc;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::Fixture;

async fn make() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("amends.db"), Options::default()).unwrap();
    Fixture::new(Arc::new(store), folder)
}

amends_store::conformance_suite!(make);
