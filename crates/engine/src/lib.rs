//! The runtime of amends: it drives sagas, and never does anything before it is durable.
//!
//! [`Engine`] is the handle. Inside, one task drives each saga in flight (`saga`): input → decide → commit → effects. A
//! committer gathers what all of them want to write; a scheduler claims what becomes due; recovery takes over what lapsed
//! nodes left behind; the intake takes up what callers began in SQL transactions of their own; a keeper keeps the node's
//! lease. Stores, participants, clocks and randomness come from outside, so that a simulation can run the real engine.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use amends_core::{Answer, SagaId, Status, status::status};
//! use amends_engine::{Config, DefinitionText, Engine, Start, SystemClock, View};
//! use amends_participants::{Called, Caller, Outgoing};
//!
//! /// A participant that does whatever it is asked.
//! struct Willing;
//!
//! #[async_trait::async_trait]
//! impl Caller for Willing {
//!     async fn call(&self, _: Outgoing) -> Called {
//!         let answer = Answer::Response { status: 200, retry_after_ms: None, body: b"{}".to_vec() };
//!         Called::Answered { answer, took_ms: 1 }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(amends_store::Memory::new());
//! let config = Config::new("node-1", 42);
//! let engine = Engine::start(config, store, Arc::new(Willing), Arc::new(SystemClock)).await?;
//! let definition = r#"
//!     saga = "greeting"
//!     version = 1
//!     [participants.postman]
//!     idempotency = "replay"
//!     [[step]]
//!     name = "send"
//!     effect = "none"
//!     action = { to = "postman", post = "/cards" }
//! "#;
//! engine.register(DefinitionText::Toml(definition.into()), "greeting").await?;
//!
//! let id = SagaId::new("card:1")?;
//! let start = Start {
//!     saga: "greeting".into(),
//!     version: None,
//!     id: id.clone(),
//!     input: serde_json::json!({}),
//!     trace: None,
//!     who: "me".into(),
//! };
//! assert!(engine.submit(start).await?.created);
//! let View::Whole(saga) = engine.wait(&id, Duration::from_secs(5)).await? else { panic!() };
//! assert_eq!(status(&saga), Status::Completed);
//! engine.stop(Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```

mod api;
mod clock;
mod committer;
mod config;
mod definitions;
mod engine;
mod health;
mod histogram;
mod holders;
mod intake;
mod keeper;
mod lease;
mod meter;
mod metrics;
mod node;
mod people;
mod persist;
mod random;
mod read;
mod recovery;
mod register;
mod registry;
mod retention;
mod row;
mod saga;
mod scheduler;
mod steady;
mod submit;
mod unreadable;
mod waiters;

pub use api::{DefinitionText, JournalPage, Refused, Registered, Start, Started, View};
pub use clock::{Clock, SystemClock};
pub use config::{Config, Limits, Times};
pub use engine::{Engine, StartError};
pub use health::{Gauges, Health};
pub use histogram::HistogramView;
pub use metrics::{CallLabels, Metrics, SagaCounts};
pub use people::EVENT_ID_BYTES_MAX;
