//! The embedded engine, as its service sees it.

use std::sync::Arc;
use std::time::Duration;

use amends_core::SagaId;
use amends_engine::{Engine, Refused, Start};
use amends_store::locks::Locks as LockPort;

use serde::Serialize;

use crate::locks::Locks;
use crate::{Builder, Handle, Saga, StartError};

/// An engine in this process. Cheap to clone; clones are the same engine.
///
/// When the last clone is dropped, and the last [`Handle`], without [`Amends::shutdown`], everything ends where it stands, as in a crash. Nothing is lost by
/// that: the next start goes on from what is durable.
#[derive(Clone)]
pub struct Amends {
    engine: Engine,
    locks: Locks,
    who: Arc<str>,
}

impl Amends {
    /// Begins to set up an engine on a store: `sqlite://amends.db`, `postgres://user@host/database`, `redis://host:6379`, or `memory:`, as far as
    /// the features of this crate have it.
    pub fn builder(store_url: impl Into<String>) -> Builder {
        Builder::new(store_url.into())
    }

    /// Starts an engine without any definition of its own: [`Amends::builder`] with every default.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn open(store_url: impl Into<String>) -> Result<Self, StartError> {
        Self::builder(store_url).start().await
    }

    pub(crate) fn new(engine: Engine, locks: Arc<dyn LockPort>, who: String) -> Self {
        Self { engine, locks: Locks::new(locks, &who), who: who.into() }
    }

    /// Begins a saga under a business id, such as `order:789`. When it returns the saga is durable, and goes on whether or not anybody waits for
    /// it, also after a crash.
    ///
    /// The same again, with the same input, gives the same saga, also after it ended. Dropped before it returns it may or may not have begun:
    /// submit it again.
    ///
    /// # Errors
    /// [`Refused`]: another input under this id, a claim that is held, a limit that is reached; nothing was written, except that after
    /// [`Kind::Indeterminate`](amends_store::Kind::Indeterminate) it is not known yet: submit it again.
    pub async fn submit<I: Serialize>(
        &self,
        saga: &Saga<I>,
        id: impl Into<String>,
        input: &I,
    ) -> Result<Handle<I>, Refused> {
        let id = SagaId::new(id).map_err(|bad| Refused::Malformed(bad.to_string()))?;
        let input = serde_json::to_value(input)
            .map_err(|error| Refused::Malformed(format!("the input cannot be written as JSON: {error}")))?;
        let definition = saga.definition();
        let start = Start {
            saga: definition.name.clone(),
            version: Some(definition.version),
            id: id.clone(),
            input,
            trace: None,
            who: self.who.to_string(),
        };
        let started = self.engine.submit(start).await?;
        Ok(Handle::new(self.clone(), id, Some(started.created)))
    }

    /// A handle of a saga that began before, here, over the API or in a transaction. Whether there is one, its methods say.
    ///
    /// # Errors
    /// [`Refused::Malformed`] if the text is no id.
    pub fn handle<I>(&self, _saga: &Saga<I>, id: impl Into<String>) -> Result<Handle<I>, Refused> {
        let id = SagaId::new(id).map_err(|bad| Refused::Malformed(bad.to_string()))?;
        Ok(Handle::new(self.clone(), id, None))
    }

    /// The engine itself: lists, journals, people's actions, callbacks.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The locks beside the store.
    #[must_use]
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(crate) fn who(&self) -> &str {
        &self.who
    }

    /// Stops in order: nothing new is taken, calls in flight get up to `grace` to end, and the sagas are given back, so that the next start goes
    /// on at once. Nothing depends on it.
    pub async fn shutdown(self, grace: Duration) {
        self.engine.stop(grace).await;
    }
}

impl std::fmt::Debug for Amends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amends").field("engine", &self.engine).finish_non_exhaustive()
    }
}
