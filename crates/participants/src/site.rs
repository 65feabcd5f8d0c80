//! One participant: where it is, what it takes to call it, and how it fares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use amends_core::Answer;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use crate::address::Address;
use crate::config::ParticipantConfig;
use crate::door::Door;
use crate::gate::Pass;
use crate::head::{Additions, Prepared, prepare};
use crate::link::{Connector, Link, Received};
use crate::pool::Pool;
use crate::port::{Clock, Outgoing};
use crate::signature::SigningKey;
use crate::tls;
use crate::value::EnvLookup;

pub(crate) struct Site {
    pub(crate) config: ParticipantConfig,
    pub(crate) address: Address,
    pub(crate) door: Arc<Door>,
    pub(crate) pool: Arc<Pool>,
    env: EnvLookup,
    resolved: RwLock<Result<Arc<Resolved>, String>>,
    /// The participant refused our credentials: they are read again before the next call, since a file may have changed.
    doubted: AtomicBool,
    /// Kept over re-readings of the credentials: reading the system's authorities takes a while.
    connector: Mutex<Option<Connector>>,
}

/// What variables and files held when they were read.
pub(crate) struct Resolved {
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) key: Option<SigningKey>,
    connector: Connector,
}

impl Site {
    /// Reads what variables and files hold; what is missing makes calls misconfigured, not the start fail.
    pub(crate) fn new(name: &str, config: ParticipantConfig, address: Address, env: EnvLookup) -> Self {
        let site = Self {
            door: Door::new(name, config.max_concurrency),
            pool: Pool::new(config.keep_alive, config.max_concurrency),
            resolved: RwLock::new(Err("not read yet".into())),
            doubted: AtomicBool::new(false),
            connector: Mutex::new(None),
            config,
            address,
            env,
        };
        if let Err(reason) = site.resolve_again() {
            tracing::warn!(participant = name, "calls to it will wait: {reason}");
        }
        site
    }

    /// What it takes to call it; read again if that failed before or the participant doubts it.
    ///
    /// # Errors
    /// What is missing, in plain words.
    pub(crate) async fn resolved(self: &Arc<Self>) -> Result<Arc<Resolved>, String> {
        if !self.doubted.load(Ordering::Relaxed)
            && let Ok(resolved) = self.last_resolved()
        {
            return Ok(resolved);
        }
        let site = self.clone();
        // Files may lie on slow or hung mounts; those must not hold up a worker of the runtime.
        tokio::task::spawn_blocking(move || site.resolve_again())
            .await
            .unwrap_or_else(|_| Err("its configured values could not be read: the node is stopping".into()))
    }

    /// What was read last.
    pub(crate) fn last_resolved(&self) -> Result<Arc<Resolved>, String> {
        self.resolved.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn resolve_again(&self) -> Result<Arc<Resolved>, String> {
        self.doubted.store(false, Ordering::Relaxed);
        let resolved = self.resolve().map(Arc::new);
        *self.resolved.write().unwrap_or_else(PoisonError::into_inner) = resolved.clone();
        resolved
    }

    fn resolve(&self) -> Result<Resolved, String> {
        let mut headers = Vec::with_capacity(self.config.headers.len());
        for (name, value) in &self.config.headers {
            let wrong = |reason: String| format!("headers.{name}: {reason}");
            let value = value.resolve(&self.env).and_then(|value| header_value(&value)).map_err(wrong)?;
            headers.push((name.parse().map_err(|_| wrong("is no header name".into()))?, value));
        }
        let key = self.config.signing_key(&self.env)?;
        Ok(Resolved { headers, key, connector: self.connector()? })
    }

    fn connector(&self) -> Result<Connector, String> {
        let mut connector = self.connector.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connector) = &*connector {
            return Ok(connector.clone());
        }
        let made = tls::connector(self.address.is_https, self.config.ca_file.as_deref())?;
        *connector = Some(made.clone());
        Ok(made)
    }

    /// Sends a prepared request over an idle connection, or a new one.
    ///
    /// An idle connection may turn out to be closed. If not one byte was written to it, the request is written to another: that
    /// is no retry, since nothing was sent.
    ///
    /// # Errors
    /// Why there is no complete answer. Whether anything was sent is in the pass.
    pub(crate) async fn send(
        &self,
        resolved: &Resolved,
        outgoing: &Outgoing,
        additions: &Additions<'_>,
        prepared: Prepared,
        pass: &Arc<Pass>,
        clock: &Clock,
    ) -> Result<Received, String> {
        let mut prepared = prepared;
        while let Some(link) = self.pool.take() {
            match self.exchange(link, prepared.stamp(outgoing, additions, clock()), pass).await {
                Err(_) if !pass.written() && !pass.lapsed() => prepared = prepare(outgoing, additions)?,
                answered_or_lost => return answered_or_lost,
            }
        }
        // Connecting is rare and its future large: it is not a part of each call's.
        let link = Box::pin(Link::open(resolved.connector.clone(), &self.address)).await?;
        self.exchange(link, prepared.stamp(outgoing, additions, clock()), pass).await
    }

    async fn exchange(
        &self,
        mut link: Link,
        request: http::Request<http_body_util::Full<bytes::Bytes>>,
        pass: &Arc<Pass>,
    ) -> Result<Received, String> {
        let received = link.exchange(request, pass.clone(), self.config.answer_bytes_max).await?;
        self.pool.put(link).await;
        Ok(received)
    }

    /// Takes in what an answer says about our credentials.
    pub(crate) fn heard(&self, answer: &Answer) {
        if let Answer::Response { status: 401 | 403, .. } = answer {
            self.doubted.store(true, Ordering::Relaxed);
        }
    }
}

fn header_value(value: &SecretString) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value.expose_secret())
        .map_err(|_| "has characters that no header may have, such as a line break".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolved_header_is_not_shown() {
        let value = header_value(&"canary".into()).expect("a header value");
        assert_eq!(format!("{value:?}"), "Sensitive");
    }
}
