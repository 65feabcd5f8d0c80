//! Redis servers that a run starts, ends, stops and empties of their functions; or one of somebody else's, which is left alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amends_testbed::redis::Redis;
use anyhow::{Context as _, Result, ensure};

/// Servers, all of which end with the last clone.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    /// Somebody else's.
    named: Option<String>,
    own: Arc<Mutex<Vec<Redis>>>,
}

impl Servers {
    /// Somebody else's server.
    #[must_use]
    pub fn named(url: &str) -> Self {
        Self { named: Some(url.to_owned()), own: Arc::default() }
    }

    /// The URL for a long run: what was named, or a fresh server.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn of_run(&self) -> Result<String> {
        match &self.named {
            Some(url) => Ok(url.clone()),
            None => self.fresh(),
        }
    }

    /// The URL of a server that nothing is in yet.
    ///
    /// # Errors
    /// If it cannot be started, or somebody else's was named: that one is not emptied.
    pub fn fresh(&self) -> Result<String> {
        ensure!(self.named.is_none(), "a single fault needs servers of its own: write --store redis:");
        let server = Redis::start()?;
        let url = server.url();
        self.servers().push(server);
        Ok(url)
    }

    /// Whether the servers are the run's own, so that it may end them.
    #[must_use]
    pub fn are_own(&self) -> bool {
        self.named.is_none()
    }

    /// Does something to the server that was started last. It blocks.
    ///
    /// # Errors
    /// If there is none, and whatever `act` fails with.
    pub fn with_last<T>(&self, act: impl FnOnce(&mut Redis) -> Result<T>) -> Result<T> {
        tokio::task::block_in_place(|| act(self.servers().last_mut().context("no server was started")?))
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Redis>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
