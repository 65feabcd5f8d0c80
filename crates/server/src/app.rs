//! What all handlers share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use amends_engine::Engine;
use amends_participants::{ParticipantConfig, Participants};
use amends_store::locks::Locks;
use axum::Router;
use bytes::Bytes;
use tokio::sync::watch;

use crate::auth::Access;
use crate::callers::Callers;
use crate::config::ServerConfig;
use crate::counts::{Cached, LockCounts, Refusals};
use crate::routes;

/// A checked configuration, with its secrets read.
#[derive(Debug)]
pub struct Settings {
    pub(crate) access: Access,
    pub(crate) limits: Limits,
}

/// Limits of requests.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) max_body_bytes: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) connections: crate::ConnectionLimits,
}

impl Settings {
    /// Checks the configuration and reads its secrets. `env` reads an environment variable.
    ///
    /// # Errors
    /// What is wrong and what to do, in plain words; never a secret.
    pub fn new(config: &ServerConfig, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let access = Access::new(config, env)?;
        access.fits(config.listen_address()?)?;
        for (name, value) in
            [("max_body_bytes", config.max_body_bytes), ("max_connections", config.max_connections)]
        {
            if value == 0 {
                return Err(format!("[server] {name} must be at least 1"));
            }
        }
        if let Some(url) = &config.public_url {
            let parsed = url.parse::<http::Uri>().ok();
            if !parsed.is_some_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none()
            }) {
                return Err(format!(
                    "[server] public_url: `{url}` must be http:// or https://, a host, and optionally a port and a path"
                ));
            }
        }
        let limits = Limits {
            max_body_bytes: config.max_body_bytes,
            body_timeout: config.body_timeout,
            max_wait: config.max_wait,
            connections: crate::ConnectionLimits {
                max_connections: config.max_connections,
                header_timeout: config.header_timeout,
                stop_within: config.stop_within,
            },
        };
        Ok(Self { access, limits })
    }
}

/// The API over an engine. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    engine: Engine,
    locks: Arc<dyn Locks>,
    lock_counts: LockCounts,
    participants: Callers,
    settings: Settings,
    cached: Cached,
    refusals: Arc<Refusals>,
    documentation: Bytes,
    stopping: watch::Sender<bool>,
}

impl App {
    /// Makes the API. Nothing is listened on yet. `locks` are what is offered at `/v1/locks`. `participants` are asked who signed a callback; `configs` are theirs.
    #[must_use]
    pub fn new(
        engine: Engine,
        locks: Arc<dyn Locks>,
        participants: Arc<Participants>,
        configs: &BTreeMap<String, ParticipantConfig>,
        settings: Settings,
    ) -> Self {
        let participants = Callers::new(participants, configs);
        let (stopping, _) = watch::channel(false);
        let refusals = Arc::new(Refusals::new());
        let (cached, documentation) = (Cached::new(), routes::documentation());
        let lock_counts = LockCounts::default();
        Self(Arc::new(Inner {
            engine,
            locks,
            lock_counts,
            participants,
            settings,
            cached,
            refusals,
            documentation,
            stopping,
        }))
    }

    /// Every route, as a service without its server.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Whether this address may be listened on: without tokens only loopback.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn may_listen_on(&self, address: SocketAddr) -> Result<(), String> {
        self.0.settings.access.fits(address)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn locks(&self) -> &dyn Locks {
        &*self.0.locks
    }

    pub(crate) fn lock_counts(&self) -> &LockCounts {
        &self.0.lock_counts
    }

    pub(crate) fn access(&self) -> &Access {
        &self.0.settings.access
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.settings.limits
    }

    pub(crate) fn participants(&self) -> &Callers {
        &self.0.participants
    }

    pub(crate) fn cached(&self) -> &Cached {
        &self.0.cached
    }

    pub(crate) fn documentation(&self) -> Bytes {
        self.0.documentation.clone()
    }

    pub(crate) fn refusals(&self) -> &Arc<Refusals> {
        &self.0.refusals
    }

    /// From now on nobody waits: whoever does is answered with what is known.
    pub(crate) fn begin_to_stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Returns once the server is to stop.
    pub(crate) async fn stops(&self) {
        let mut stopping = self.0.stopping.subscribe();
        // The sender lives as long as `self`: this cannot fail before it is true.
        let _ = stopping.wait_for(|stops| *stops).await;
    }
}
