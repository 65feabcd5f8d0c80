//! Participants and requests with defaults; each test changes what it is about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use amends_core::definition::Method;
use amends_core::request::{Payload, Request};
use amends_core::{Answer, Key, OpKind, SagaId, Time};
use amends_participants::{
    Called, Caller as _, EnvLookup, LeaseCheck, Outgoing, ParticipantConfig, Participants, Settings,
};
use serde_json::json;

/// The time of every test: 2023-11-14T22:13:20.123Z.
pub(crate) const NOW: Time = Time(1_700_000_000_123);

pub(crate) fn settings() -> Settings {
    Settings { callback: None, clock: Arc::new(|| NOW), env: env(&[]) }
}

pub(crate) fn env(variables: &[(&'static str, &'static str)]) -> EnvLookup {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    Arc::new(move |name| variables.get(name).map(|value| (*value).to_owned()))
}

/// The participant `payment` alone.
pub(crate) fn payment(config: ParticipantConfig) -> Participants {
    with(config, settings())
}

pub(crate) fn with(config: ParticipantConfig, settings: Settings) -> Participants {
    Participants::new(BTreeMap::from([("payment".to_owned(), config)]), settings)
        .expect("a valid configuration")
}

pub(crate) fn at(url: impl Into<String>) -> Participants {
    payment(ParticipantConfig::new(url))
}

/// An action of `payment` that may take as long as a loaded machine needs.
pub(crate) fn request() -> Request {
    Request {
        to: "payment".into(),
        method: Method::Post,
        path: "/charges".into(),
        headers: vec![],
        body: Some(Payload::Json(json!({"amount": 7}))),
        timeout_ms: 30_000,
        key: Key::new(&saga(), "charge", OpKind::Action, 1),
        action_key: None,
        step: "charge".into(),
        operation: OpKind::Action,
        attempt: 1,
        is_query: false,
    }
}

pub(crate) fn query() -> Request {
    Request { method: Method::Get, path: "/charges/order:1".into(), body: None, is_query: true, ..request() }
}

pub(crate) fn saga() -> SagaId {
    SagaId::new("order:1").expect("an id")
}

pub(crate) fn outgoing(request: Request) -> Outgoing {
    leased(request, Arc::new(|| true))
}

pub(crate) fn leased(request: Request, lease: LeaseCheck) -> Outgoing {
    Outgoing { request, saga: saga(), epoch: 7, trace: None, lease }
}

/// Calls and expects an answer of some kind.
pub(crate) async fn answer(participants: &Participants, request: Request) -> Answer {
    match participants.call(outgoing(request)).await {
        Called::Answered { answer, .. } => answer,
        other => panic!("no answer: {other:?}"),
    }
}

/// Makes an answer a text: `200 {"a":1}`, `lost: why`, `not sent: why`, `misconfigured: why`.
pub(crate) fn text(answer: &Answer) -> String {
    match answer {
        Answer::Response { status, retry_after_ms: None, body } => {
            format!("{status} {}", String::from_utf8_lossy(body))
        }
        Answer::Response { status, retry_after_ms: Some(ms), body } => {
            format!("{status} after {ms} {}", String::from_utf8_lossy(body))
        }
        Answer::NotSent(reason) => format!("not sent: {reason}"),
        Answer::Misconfigured(reason) => format!("misconfigured: {reason}"),
        Answer::Lost(reason) => format!("lost: {reason}"),
    }
}

/// Lets the runtime take in every event that has happened on the loopback so far: the bytes of this round trip come after them.
pub(crate) async fn settle() {
    let server = crate::server::Server::answering(crate::server::ok("{}")).await;
    assert_eq!(text(&answer(&at(server.url()), query()).await), "200 {}");
}

/// Makes time pass for timers, but not for sockets.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}
