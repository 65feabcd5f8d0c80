//! The memory store's intake, with callers that call it.

use std::sync::Arc;

use amends_store::Memory;
use amends_store::conformance::Fixture;
use amends_store::conformance::intake::Caller;
use async_trait::async_trait;

struct Program(Arc<Memory>);

#[async_trait]
impl Caller for Program {
    async fn submit(&self, saga: &str, id: &str, input: &str) -> Result<(), String> {
        self.0.arrive(saga, id, input).map(drop).map_err(|e| e.message)
    }
}

async fn make() -> (Fixture, Arc<dyn Caller>) {
    let store = Arc::new(Memory::new());
    (Fixture::new(store.clone(), ()), Arc::new(Program(store)))
}

amends_store::intake_suite!(make);
