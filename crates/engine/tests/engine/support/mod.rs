//! A small world: one store, participants with a ledger, a clock, and any number of engines.

mod clock;
mod definitions;
mod participants;
mod store;

use std::sync::Arc;
use std::time::Duration;

use amends_core::{Saga, SagaId, Status, Time, status};
use amends_engine::{Config, DefinitionText, Engine, Refused, Start, Started, View};
use amends_store::{Journal as _, Lists as _, Memory, Row, Store, StoredEntry};
use serde_json::{Value, json};

pub(crate) use clock::TestClock;
pub(crate) use definitions::*;
pub(crate) use participants::{Does, Participants};
pub(crate) use store::{Fault, Faulty};

/// Long enough for every retry and query of a test, in time that does not pass for real.
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) struct World {
    pub(crate) memory: Arc<Memory>,
    pub(crate) store: Arc<Faulty>,
    pub(crate) participants: Arc<Participants>,
    pub(crate) clock: Arc<TestClock>,
}

impl World {
    pub(crate) fn new() -> Self {
        let memory = Arc::new(Memory::new());
        let clock = Arc::new(TestClock::new());
        Self {
            store: Arc::new(Faulty::new(memory.clone())),
            participants: Arc::new(Participants::new()),
            memory,
            clock,
        }
    }

    pub(crate) async fn engine(&self) -> Engine {
        self.engine_with(config("a")).await
    }

    pub(crate) async fn engine_with(&self, config: Config) -> Engine {
        self.engine_on(config, self.store.clone()).await
    }

    pub(crate) async fn engine_on(&self, config: Config, store: Arc<dyn Store>) -> Engine {
        let engine = Engine::start(config, store, self.participants.clone(), self.clock.clone()).await;
        engine.expect("the store gives a lease")
    }

    /// An engine that knows this definition.
    pub(crate) async fn engine_for(&self, definition: &str) -> Engine {
        let engine = self.engine().await;
        register(&engine, definition).await;
        engine
    }

    pub(crate) async fn row(&self, id: &str) -> Row {
        self.memory.row(&saga_id(id)).await.expect("memory answers").expect("the saga is stored")
    }

    pub(crate) async fn journal(&self, id: &str) -> Vec<StoredEntry> {
        self.memory.entries(&saga_id(id), 0, 1_000).await.expect("memory answers")
    }

    /// The kinds of a saga's entries, in order.
    pub(crate) async fn kinds(&self, id: &str) -> Vec<&'static str> {
        let entries = self.journal(id).await;
        entries.iter().map(|entry| entry.decode().expect("readable").kind.name()).collect()
    }

    pub(crate) fn now(&self) -> Time {
        use amends_engine::Clock as _;
        self.clock.now()
    }
}

/// A node with short leases, so that tests of take-over end soon on any clock.
pub(crate) fn config(node: &str) -> Config {
    Config::new(node, 1)
}

pub(crate) fn saga_id(id: &str) -> SagaId {
    SagaId::new(id).expect("a good id")
}

pub(crate) async fn register(engine: &Engine, definition: &str) {
    let name =
        definition.lines().find_map(|line| line.strip_prefix("saga = ")).expect("a definition names itself");
    let registered =
        engine.register(DefinitionText::Toml(definition.to_owned()), name.trim_matches('"')).await;
    registered.unwrap_or_else(|refused| panic!("{refused:?}"));
}

pub(crate) fn order(id: &str) -> Start {
    start("order", id, json!({ "sku": "tea", "qty": 2, "amount": "12.50" }))
}

pub(crate) fn start(saga: &str, id: &str, input: Value) -> Start {
    Start {
        saga: saga.to_owned(),
        version: None,
        id: saga_id(id),
        input,
        trace: None,
        who: "test".to_owned(),
    }
}

pub(crate) async fn submit(engine: &Engine, start: Start) -> Started {
    engine.submit(start).await.expect("accepted")
}

/// Submits it, and waits until it rests.
pub(crate) async fn run(engine: &Engine, start: Start) -> Arc<Saga> {
    let id = start.id.clone();
    submit(engine, start).await;
    rest(engine, id.as_str()).await
}

/// Waits until it has ended, or is unknown or dead.
pub(crate) async fn rest(engine: &Engine, id: &str) -> Arc<Saga> {
    whole(engine.wait(&saga_id(id), LONG).await)
}

/// Waits until it is dead: unknown comes before.
pub(crate) async fn dead(engine: &Engine, id: &str) -> Arc<Saga> {
    until("it is dead", async || status_of(&rest(engine, id).await) == Status::Dead).await;
    rest(engine, id).await
}

pub(crate) fn whole(view: Result<View, Refused>) -> Arc<Saga> {
    match view.expect("a view") {
        View::Whole(saga) => saga,
        View::Row { why, .. } => panic!("only its row can be seen: {why}"),
    }
}

pub(crate) fn status_of(saga: &Arc<Saga>) -> Status {
    status::status(saga)
}

/// Waits, in steps of the clock, until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..100_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// So many orders at once, each of which has to complete.
pub(crate) async fn complete_at_once(engine: &Engine, count: usize) {
    let running: Vec<_> = (0..count)
        .map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move { run(&engine, order(&format!("o{n}"))).await })
        })
        .collect();
    for saga in running {
        assert_eq!(status_of(&saga.await.expect("no panic")), Status::Completed);
    }
}
