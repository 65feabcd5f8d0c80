//! Participants behind a driver: the door, the lease and the time-out are those of HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use amends_core::Answer;
use amends_core::definition::redis::RedisCall;
use amends_core::request::{Payload, Request};
use amends_participants::{
    BreakerState, Called, Caller as _, Driver, HeldReason, ParticipantConfig, Participants, Pass, Remote,
    Settings, UrlSource,
};
use async_trait::async_trait;
use secrecy::ExposeSecret as _;

use crate::calls::{answer, at, env, leased, outgoing, pass, request, settings, text};
use crate::server::{Server, ok};

/// What the remote does with a call: by the name of its step.
#[derive(Clone)]
struct Scripted {
    url: UrlSource,
    sent: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Remote for Scripted {
    async fn exchange(&self, request: &Request, pass: &Pass) -> Answer {
        let url = match (self.url)() {
            Ok(url) => url.expose_secret().to_owned(),
            Err(reason) => return Answer::Misconfigured(reason),
        };
        if request.step == "no-connection" {
            std::future::pending::<()>().await;
        }
        if !pass.may_send() {
            return Answer::NotSent("the lease lapsed".into());
        }
        self.sent.lock().unwrap().push(url);
        if request.step == "no-answer" {
            std::future::pending::<()>().await;
        }
        if request.step == "fails" {
            return Answer::Lost("it broke".into());
        }
        Answer::Response { status: 200, retry_after_ms: None, body: b"{}".to_vec() }
    }
}

#[derive(Default)]
struct Opener(Mutex<Vec<Scripted>>);

impl Driver for Opener {
    fn open(&self, _name: &str, url: UrlSource) -> Arc<dyn Remote> {
        let remote = Scripted { url, sent: Arc::default() };
        self.0.lock().unwrap().push(remote.clone());
        Arc::new(remote)
    }
}

fn wallet(url: &str, settings: Settings) -> (Participants, Scripted) {
    let opener = Opener::default();
    let configs = BTreeMap::from([("payment".to_owned(), ParticipantConfig::new(url))]);
    let participants = Participants::with_driver(configs, settings, &opener).expect("a valid configuration");
    let remote = opener.0.lock().unwrap()[0].clone();
    (participants, remote)
}

fn commands(step: &str) -> Request {
    let call = RedisCall { commands: vec![vec!["DEL".into(), "a".into()]], guards: vec![], keep_ms: 1 };
    Request { body: Some(Payload::Redis(call)), step: step.into(), timeout_ms: 50, ..request() }
}

#[tokio::test]
async fn calls_go_through_the_driver_with_the_url_as_configured() {
    let variables = Settings { env: env(&[("WALLET", "redis://:canary@host")]), ..settings() };
    for (url, seen) in [("redis://host:1", "redis://host:1"), ("env:WALLET", "redis://:canary@host")] {
        let (participants, remote) = wallet(url, variables.clone());
        assert_eq!(text(&answer(&participants, commands("charge")).await), "200 {}");
        assert_eq!(*remote.sent.lock().unwrap(), [seen]);
    }
    let (participants, remote) = wallet("env:NONE", variables);
    let fault = participants.states()[0].fault.clone().expect("a fault");
    assert!(fault.contains("variable NONE is not set"), "{fault}");
    let said = text(&answer(&participants, commands("charge")).await);
    assert!(said.starts_with("misconfigured: url: ") && remote.sent.lock().unwrap().is_empty(), "{said}");
}

#[tokio::test]
async fn a_time_out_is_lost_only_if_something_was_sent() {
    let (participants, _) = wallet("redis://host", settings());
    for (step, said) in [
        ("no-answer", "lost: no answer within 50 ms"),
        ("no-connection", "not sent: no connection within 50 ms"),
    ] {
        assert_eq!(text(&answer(&participants, commands(step)).await), said);
    }
}

#[tokio::test]
async fn without_a_lease_nothing_is_sent() {
    let (participants, remote) = wallet("redis://host", settings());
    assert_eq!(participants.call(leased(commands("charge"), Arc::new(|| false))).await, Called::LeaseLost);
    assert!(remote.sent.lock().unwrap().is_empty());
    assert_eq!(participants.states()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn the_breaker_opens_and_probes() {
    let (participants, remote) = wallet("redis://host", settings());
    for _ in 0..5 {
        answer(&participants, commands("fails")).await;
    }
    let held = participants.call(outgoing(commands("charge"))).await;
    assert!(matches!(held, Called::Held { reason: HeldReason::BreakerOpen, .. }), "{held:?}");
    assert_eq!(remote.sent.lock().unwrap().len(), 5);
    pass(6).await;
    assert_eq!(text(&answer(&participants, commands("charge")).await), "200 {}");
    assert_eq!(participants.states()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn requests_of_the_other_kind_are_not_sent() {
    let (participants, remote) = wallet("redis://host", settings());
    let said = text(&answer(&participants, request()).await);
    assert!(
        said.contains("the definition calls it over HTTP") && remote.sent.lock().unwrap().is_empty(),
        "{said}"
    );
    let server = Server::answering(ok("{}")).await;
    let said = text(&answer(&at(server.url()), commands("charge")).await);
    assert!(said.contains("sends Redis commands to `payment`") && server.requests() == 0, "{said}");
}

#[tokio::test]
async fn what_is_of_http_only_is_refused_in_the_configuration() {
    let config = ParticipantConfig {
        headers: BTreeMap::from([("x".to_owned(), amends_participants::Value::parse("y"))]),
        secret: Some(amends_participants::Value::parse("env:S")),
        ..ParticipantConfig::new("redis://host")
    };
    let problems: Vec<_> = config.problems("payment").iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.contains("is for participants over HTTP")));
    let configs = BTreeMap::from([("payment".to_owned(), ParticipantConfig::new("redis://host"))]);
    let problems = Participants::new(configs, settings()).err().expect("no driver");
    assert!(
        problems[0].to_string().contains("only participants over HTTP can be called here"),
        "{problems:?}"
    );
}
