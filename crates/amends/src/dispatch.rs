//! Calls of the engine: to the handlers of this process, or to the participants that are elsewhere.

use std::collections::HashMap;
use std::sync::Arc;

use amends_core::request::Payload;
use amends_core::{Answer, Time};
use amends_participants::{
    Called, Caller, Clock, LOCAL_PREFIX, Local, LocalParticipant, Outgoing, Participants,
};
use async_trait::async_trait;
use serde_json::Value;

use crate::Call;
use crate::handler::FACTS;
use crate::saga::Served;
use crate::step::Handlers;

/// Everybody who can be called.
pub(crate) struct Dispatch {
    /// By path: saga, version and step.
    local: HashMap<String, LocalParticipant>,
    elsewhere: Participants,
}

impl Dispatch {
    pub(crate) fn new(
        served: impl IntoIterator<Item = (String, Served)>,
        elsewhere: Participants,
        clock: &Clock,
    ) -> Self {
        let local = served.into_iter().map(|(path, served)| {
            let Served { handlers, max_concurrency } = served;
            let participant =
                LocalParticipant::new(&path, max_concurrency, Arc::new(Handled(handlers)), clock.clone());
            (path, participant)
        });
        Self { local: local.collect(), elsewhere }
    }
}

#[async_trait]
impl Caller for Dispatch {
    async fn call(&self, outgoing: Outgoing) -> Called {
        let request = &outgoing.request;
        if !request.to.starts_with(LOCAL_PREFIX) {
            return self.elsewhere.call(outgoing).await;
        }
        match self.local.get(&request.path) {
            Some(participant) => participant.call(outgoing).await,
            None => Called::Answered { answer: Answer::Misconfigured(unserved(&request.path)), took_ms: 0 },
        }
    }
}

/// Nothing was sent: the saga waits, shows why, and goes on in a process that has the handlers.
fn unserved(path: &str) -> String {
    let mut words = path.trim_start_matches('/').split('/');
    let mut next = || words.next().unwrap_or_default();
    let (saga, version, step) = (next(), next(), next());
    format!(
        "this process has no handlers for step `{step}` of `{saga}` version {version}: register that saga when it starts, until no saga of this version is open"
    )
}

/// The handlers of a step, as a participant.
struct Handled(Handlers);

#[async_trait]
impl Local for Handled {
    async fn handle(&self, outgoing: &Outgoing, expires: Time) -> Answer {
        let request = &outgoing.request;
        let Some(handler) = self.0.of(request.operation, request.is_query) else {
            return Answer::Misconfigured(unserved(&request.path));
        };
        let Some(Payload::Json(body)) = &request.body else {
            return Answer::Misconfigured("a step in process is called with JSON".to_owned());
        };
        let facts = body.get(FACTS).cloned().unwrap_or(Value::Null);
        handler(Call::new(outgoing, expires, facts), body).await
    }
}
