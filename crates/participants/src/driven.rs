//! A participant behind a driver: the same door, time-out and lease as over HTTP, another wire.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use amends_core::Answer;
use amends_core::request::Payload;
use secrecy::SecretString;
use tokio::time::Instant;

use crate::breaker::Ending;
use crate::door::Door;
use crate::driver::{Driver, Remote, UrlSource};
use crate::gate::Pass;
use crate::participants::{ending, misconfigured};
use crate::port::{Called, Outgoing};
use crate::value::{EnvLookup, Value};

pub(crate) struct Driven {
    pub(crate) door: Arc<Door>,
    pub(crate) max_concurrency: usize,
    remote: Arc<dyn Remote>,
    fault: Arc<RwLock<Option<String>>>,
}

impl Driven {
    pub(crate) fn new(
        name: &str,
        url: Value,
        max_concurrency: usize,
        driver: &dyn Driver,
        env: EnvLookup,
    ) -> Self {
        let fault = Arc::new(RwLock::new(None));
        let source = source(url, env, fault.clone());
        if let Err(reason) = source() {
            tracing::warn!(participant = name, "calls to it will wait: {reason}");
        }
        Self {
            door: Door::new(name, max_concurrency),
            max_concurrency,
            remote: driver.open(name, source),
            fault,
        }
    }

    /// Why its URL could not be read when it was last needed.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn call(&self, outgoing: &Outgoing) -> Called {
        let request = &outgoing.request;
        if !matches!(request.body, Some(Payload::Redis(_))) {
            let to = &request.to;
            return misconfigured(format!(
                "participant `{to}` is a Redis server in amends.toml, and the definition calls it over HTTP: write `redis` there, or another url here"
            ));
        }
        let permit = match self.door.acquire().await {
            Ok(permit) => permit,
            Err(held) => return held,
        };
        let started = Instant::now();
        let pass = Pass::new(outgoing.lease.clone());
        let time = Duration::from_millis(request.timeout_ms);
        let answered = tokio::time::timeout(time, self.remote.exchange(request, &pass)).await;
        if pass.lapsed() && !pass.written() {
            permit.end(Ending::Silent);
            return Called::LeaseLost;
        }
        let answer = answered.unwrap_or_else(|_| {
            let timeout_ms = request.timeout_ms;
            if pass.written() {
                Answer::Lost(format!("no answer within {timeout_ms} ms"))
            } else {
                Answer::NotSent(format!("no connection within {timeout_ms} ms"))
            }
        });
        permit.end(ending(&answer));
        Called::Answered { answer, took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX) }
    }
}

/// Reads the URL, and keeps why it could not be read.
fn source(url: Value, env: EnvLookup, fault: Arc<RwLock<Option<String>>>) -> UrlSource {
    Arc::new(move || -> Result<SecretString, String> {
        let read = url.resolve(&env).map_err(|reason| format!("url: {reason}"));
        *fault.write().unwrap_or_else(PoisonError::into_inner) = read.as_ref().err().cloned();
        read
    })
}
