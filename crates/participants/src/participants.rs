//! All configured participants: the other side of the port.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amends_core::{Answer, Time};
use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use crate::address::Address;
use crate::breaker::{BreakerState, Ending};
use crate::config::{ParticipantConfig, Problem};
use crate::door::{Door, Permit};
use crate::driven::Driven;
use crate::driver::Driver;
use crate::gate::Pass;
use crate::head::{Additions, Prepared, prepare};
use crate::link::Received;
use crate::local::LOCAL_PREFIX;
use crate::port::{Called, Caller, Clock, Outgoing};
use crate::reach::Reach;
use crate::retry_after::retry_after_ms;
use crate::signature::Unverified;
use crate::site::{Resolved, Site};
use crate::value::EnvLookup;

/// What the participants share.
#[derive(Clone)]
pub struct Settings {
    /// Where participants report what they finished later; without it no `Amends-Callback` is sent.
    pub callback: Option<CallbackUrl>,
    /// The wall clock, for `Amends-Expires` and signatures.
    pub clock: Clock,
    /// How `env:NAME` is looked up.
    pub env: EnvLookup,
}

impl Settings {
    /// The system's clock and the process's environment.
    #[must_use]
    pub fn system(callback: Option<CallbackUrl>) -> Self {
        let clock = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        };
        Self { callback, clock: Arc::new(clock), env: Arc::new(|name| std::env::var(name).ok()) }
    }
}

/// The URL at which this server takes callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackUrl(HeaderValue);

impl CallbackUrl {
    /// Derives it from `[server] public_url`.
    ///
    /// # Errors
    /// What is wrong with that URL.
    pub fn new(public_url: &str) -> Result<Self, String> {
        Address::parse(public_url)?;
        let url = format!("{}/v1/callbacks", public_url.trim_end_matches('/'));
        HeaderValue::from_str(&url).map(Self).map_err(|_| "has characters that no header may have".to_owned())
    }
}

/// The participants of `amends.toml`, ready to be called.
pub struct Participants {
    sites: BTreeMap<String, Reached>,
    settings: Settings,
}

/// A participant, by how it is reached.
enum Reached {
    Http(Arc<Site>),
    Driven(Arc<Driven>),
}

impl Reached {
    fn door(&self) -> &Door {
        match self {
            Self::Http(site) => &site.door,
            Self::Driven(driven) => &driven.door,
        }
    }
}

/// How a participant fares, for metrics and statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParticipantState {
    /// Its name.
    pub name: String,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Calls in flight.
    pub in_flight: usize,
    /// How many may be in flight.
    pub max_concurrency: usize,
    /// Calls that wait for a place.
    pub waiting: usize,
    /// Idle connections; 0 where calls share one.
    pub idle_connections: usize,
    /// Why it cannot be called as configured, if that is so: a variable or a file is missing.
    pub fault: Option<String>,
}

impl Participants {
    /// Makes the configured participants ready; connects to none. Reads variables and files: to be called before the runtime is
    /// busy. A variable or a file that is missing is no error: calls are [`Answer::Misconfigured`] until it is there.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration itself, all at once; also a participant that is not reached over HTTP.
    pub fn new(
        configs: BTreeMap<String, ParticipantConfig>,
        settings: Settings,
    ) -> Result<Self, Vec<Problem>> {
        Self::make(configs, settings, None)
    }

    /// As [`Participants::new`], with a driver for those that are not reached over HTTP.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration itself, all at once.
    pub fn with_driver(
        configs: BTreeMap<String, ParticipantConfig>,
        settings: Settings,
        driver: &dyn Driver,
    ) -> Result<Self, Vec<Problem>> {
        Self::make(configs, settings, Some(driver))
    }

    fn make(
        configs: BTreeMap<String, ParticipantConfig>,
        settings: Settings,
        driver: Option<&dyn Driver>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut sites = BTreeMap::new();
        for (name, config) in configs {
            if !is_name(&name) {
                let reason = "is no participant's name; [a-z][a-z0-9_-]{0,63} are".to_owned();
                problems.push(Problem { participant: name.clone(), field: "name".into(), reason });
            }
            let found = config.problems(&name);
            let env = settings.env.clone();
            match (Reach::parse(&config.url.0), driver) {
                (Ok(Reach::Http(address)), _) if found.is_empty() => {
                    let site = Site::new(&name, config, address, env);
                    sites.insert(name, Reached::Http(Arc::new(site)));
                }
                (Ok(Reach::Driven(url)), Some(driver)) if found.is_empty() => {
                    let driven = Driven::new(&name, url, config.max_concurrency, driver, env);
                    sites.insert(name, Reached::Driven(Arc::new(driven)));
                }
                (Ok(Reach::Driven(_)), None) => {
                    problems.extend(found);
                    let reason = "only participants over HTTP can be called here; write http:// or https://"
                        .to_owned();
                    problems.push(Problem { participant: name, field: "url".into(), reason });
                }
                (Ok(Reach::Http(_) | Reach::Driven(_)) | Err(_), _) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(Self { sites, settings }) } else { Err(problems) }
    }

    /// Whether `amends.toml` names this participant.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.sites.contains_key(name)
    }

    /// How each participant fares, by name.
    #[must_use]
    pub fn states(&self) -> Vec<ParticipantState> {
        self.sites.iter().map(|(name, site)| state(name, site)).collect()
    }

    /// Which participants can have sent a message with these headers and this body: those whose secret its signature fits. Most
    /// often one; more where participants share a secret. To be asked before the body is parsed.
    ///
    /// # Errors
    /// Why it is nobody's, also if no participant has a secret.
    pub fn signed_by(&self, headers: &HeaderMap, body: &[u8]) -> Result<Vec<&str>, Unverified> {
        let now = (self.settings.clock)();
        let mut failure = Unverified::Signature;
        let mut names = Vec::new();
        for (name, reached) in &self.sites {
            let Reached::Http(site) = reached else { continue };
            let Ok(resolved) = site.last_resolved() else { continue };
            match resolved.key.as_ref().map(|key| key.verify(headers, body, now)) {
                Some(Ok(())) => names.push(name.as_str()),
                Some(Err(error)) => failure = error,
                None => {}
            }
        }
        if names.is_empty() { Err(failure) } else { Ok(names) }
    }

    /// Sends, waits, and reads what became of it.
    async fn perform(
        &self,
        site: &Site,
        resolved: &Resolved,
        outgoing: &Outgoing,
        prepared: Prepared,
        permit: Permit,
    ) -> Called {
        let additions = additions(site, resolved, &self.settings);
        let started = Instant::now();
        let timeout_ms = outgoing.request.timeout_ms;
        let pass = Pass::new(outgoing.lease.clone());
        let sending = pin!(site.send(resolved, outgoing, &additions, prepared, &pass, &self.settings.clock));
        let received =
            tokio::time::timeout(Duration::from_millis(timeout_ms), sending).await.unwrap_or_else(|_| {
                let what = if pass.written() { "complete answer" } else { "connection" };
                Err(format!("no {what} within {timeout_ms} ms"))
            });
        let answer = match received {
            Ok(Received { status, headers, body }) => {
                let retry_after_ms = retry_after_ms(&headers, (self.settings.clock)());
                Answer::Response { status, retry_after_ms, body }
            }
            Err(reason) if pass.written() => Answer::Lost(reason),
            Err(_) if pass.lapsed() => {
                permit.end(Ending::Silent);
                return Called::LeaseLost;
            }
            Err(reason) => Answer::NotSent(reason),
        };
        site.heard(&answer);
        // A lease that lapses in the middle of a write is our failure, not the participant's.
        permit.end(if pass.lapsed() { Ending::Silent } else { ending(&answer) });
        Called::Answered { answer, took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX) }
    }
}

#[async_trait]
impl Caller for Participants {
    async fn call(&self, outgoing: Outgoing) -> Called {
        let name = &outgoing.request.to;
        let site = match self.sites.get(name) {
            Some(Reached::Http(site)) => site,
            Some(Reached::Driven(driven)) => return driven.call(&outgoing).await,
            None if name.starts_with(LOCAL_PREFIX) => {
                return misconfigured(format!(
                    "participant `{name}` is in the process of a Rust service, and this is another one: let that service run on this store"
                ));
            }
            None => {
                return misconfigured(format!(
                    "participant `{name}` is not in amends.toml: add [participants.{name}] url = \"http://…\""
                ));
            }
        };
        let resolved = match site.resolved().await {
            Ok(resolved) => resolved,
            Err(reason) => return misconfigured(format!("participant `{name}`: {reason}")),
        };
        // Before anything else: what can never be sent must not wait for a place or count against the participant.
        let prepared = match prepare(&outgoing, &additions(site, &resolved, &self.settings)) {
            Ok(prepared) => prepared,
            Err(reason) => return misconfigured(reason),
        };
        match site.door.acquire().await {
            Ok(permit) => self.perform(site, &resolved, &outgoing, prepared, permit).await,
            Err(held) => held,
        }
    }
}

fn additions<'a>(site: &'a Site, resolved: &'a Resolved, settings: &'a Settings) -> Additions<'a> {
    Additions {
        address: &site.address,
        headers: &resolved.headers,
        key: resolved.key.as_ref(),
        callback: settings.callback.as_ref().map(|callback| &callback.0),
    }
}

pub(crate) fn misconfigured(reason: String) -> Called {
    Called::Answered { answer: Answer::Misconfigured(reason), took_ms: 0 }
}

/// What an answer tells the breaker (rule 10). Only what a participant in trouble says is a failure: 4xx and 3xx, whatever a
/// definition reads into them, come from one that works.
pub(crate) fn ending(answer: &Answer) -> Ending {
    match answer {
        Answer::Response { status, .. } if *status >= 500 => Ending::Failed,
        Answer::Response { .. } => Ending::Answered,
        Answer::NotSent(_) | Answer::Lost(_) => Ending::Failed,
        Answer::Misconfigured(_) => Ending::Silent,
    }
}

fn state(name: &str, reached: &Reached) -> ParticipantState {
    let door = reached.door();
    let (max_concurrency, idle_connections, fault) = match reached {
        Reached::Http(site) => (site.config.max_concurrency, site.pool.len(), site.last_resolved().err()),
        Reached::Driven(driven) => (driven.max_concurrency, 0, driven.fault()),
    };
    ParticipantState {
        name: name.to_owned(),
        breaker: door.breaker.state(),
        in_flight: door.limit.in_flight(),
        max_concurrency,
        waiting: door.limit.waiting(),
        idle_connections,
        fault,
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= 64
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}
