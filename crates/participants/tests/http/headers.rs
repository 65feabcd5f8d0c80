//! What a participant sees, to the letter.

use std::path::Path;

use amends_core::definition::Method;
use amends_core::request::{Payload, Request};
use amends_core::{Key, OpKind, SagaId};
use amends_participants::{
    CallbackUrl, Caller as _, Outgoing, ParticipantConfig, Settings, SigningKey, Value,
};
use http::{HeaderMap, HeaderName};

use crate::calls::{NOW, answer, env, outgoing, query, request, saga, settings, with};
use crate::server::{Seen, Server, ok};

/// Sends a request to `{server}/api` and returns what arrived.
async fn seen(outgoing: Outgoing, change: impl FnOnce(&mut ParticipantConfig, &mut Settings)) -> Seen {
    let server = Server::answering(ok("{}")).await;
    let (mut config, mut settings) = (ParticipantConfig::new(format!("{}/api/", server.url())), settings());
    settings.callback = Some(CallbackUrl::new("https://sagas.example/").expect("a URL"));
    change(&mut config, &mut settings);
    let _ = with(config, settings).call(outgoing).await;
    server.seen().pop().expect("a request")
}

/// The request as sorted lines, with what differs from run to run replaced.
fn shown(seen: &Seen) -> String {
    let mut headers: Vec<String> = seen
        .headers
        .iter()
        .map(|line| match line.split_once(": ").expect("a header") {
            ("host", _) => "host: HOST".to_owned(),
            ("user-agent", agent) => {
                format!("user-agent: {}", agent.replace(env!("CARGO_PKG_VERSION"), "VERSION"))
            }
            (name, value) => format!("{name}: {value}"),
        })
        .collect();
    headers.sort();
    format!("{}\n{}\n\n{}", seen.line, headers.join("\n"), String::from_utf8_lossy(&seen.body))
}

#[tokio::test]
async fn an_action() {
    let trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".to_owned());
    let seen = seen(Outgoing { trace, ..outgoing(request()) }, |_, _| {}).await;
    let span = seen.header("traceparent").expect("a trace")[36..52].to_owned();
    assert_ne!(span, "00f067aa0ba902b7");
    assert_eq!(
        shown(&seen).replace(&span, "SPAN"),
        "POST /api/charges HTTP/1.1\n\
         accept: application/json\n\
         amends-attempt: 1\n\
         amends-callback: https://sagas.example/v1/callbacks\n\
         amends-epoch: 7\n\
         amends-expires: 2023-11-14T22:13:50.123Z\n\
         amends-operation: action\n\
         amends-saga: order:1\n\
         amends-step: charge\n\
         content-length: 12\n\
         content-type: application/json\n\
         host: HOST\n\
         idempotency-key: order:1:charge:action\n\
         traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-SPAN-00\n\
         user-agent: amends/VERSION\n\n\
         {\"amount\":7}"
    );
}

#[tokio::test]
async fn a_fenced_compensation_of_a_saga_with_a_difficult_id() {
    let saga = SagaId::new("order/1 \u{e4}").expect("an id");
    let request = Request {
        method: Method::Put,
        path: "/refunds?dry=1".into(),
        body: None,
        key: Key::new(&saga, "charge", OpKind::Compensation, 1),
        action_key: Some(Key::new(&saga, "charge", OpKind::Action, 2)),
        operation: OpKind::Compensation,
        attempt: 3,
        ..request()
    };
    let seen = seen(Outgoing { saga, ..outgoing(request) }, |_, settings| settings.callback = None).await;
    let trace = seen.header("traceparent").expect("a trace").to_owned();
    assert_eq!(
        shown(&seen).replace(&trace, "TRACE"),
        "PUT /api/refunds?dry=1 HTTP/1.1\n\
         accept: application/json\n\
         amends-action-key: order%2F1%20%C3%A4:charge:action.2\n\
         amends-attempt: 3\n\
         amends-epoch: 7\n\
         amends-expires: 2023-11-14T22:13:50.123Z\n\
         amends-operation: compensation\n\
         amends-saga: order%2F1%20%C3%A4\n\
         amends-step: charge\n\
         content-length: 0\n\
         host: HOST\n\
         idempotency-key: order%2F1%20%C3%A4:charge:compensation\n\
         traceparent: TRACE\n\
         user-agent: amends/VERSION\n\n"
    );
}

#[tokio::test]
async fn a_query() {
    let seen = seen(outgoing(query()), |_, _| {}).await;
    let trace = seen.header("traceparent").expect("a trace").to_owned();
    assert_eq!(
        shown(&seen).replace(&trace, "TRACE"),
        "GET /api/charges/order:1 HTTP/1.1\n\
         accept: application/json\n\
         amends-attempt: 1\n\
         amends-callback: https://sagas.example/v1/callbacks\n\
         amends-epoch: 7\n\
         amends-expires: 2023-11-14T22:13:50.123Z\n\
         amends-operation: action\n\
         amends-saga: order:1\n\
         amends-step: charge\n\
         host: HOST\n\
         idempotency-key: order:1:charge:action\n\
         traceparent: TRACE\n\
         user-agent: amends/VERSION\n\n"
    );
}

#[tokio::test]
async fn a_form_and_the_definitions_own_headers() {
    let request = Request {
        method: Method::Patch,
        headers: vec![
            ("idempotency-key".into(), "0123abcd".into()),
            ("x-note".into(), "from the definition".into()),
        ],
        body: Some(Payload::Form("amount=7&currency=EUR".into())),
        ..request()
    };
    let seen = seen(outgoing(request), |config, _| {
        config.headers.insert("X-Note".into(), Value::parse("configured"));
    })
    .await;
    assert_eq!(seen.line, "PATCH /api/charges HTTP/1.1");
    assert_eq!(seen.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(seen.body, b"amount=7&currency=EUR");
    assert_eq!(seen.header("idempotency-key"), Some("0123abcd"));
    assert_eq!(seen.header("x-note"), Some("configured"));
    assert_eq!(seen.headers.iter().filter(|line| line.starts_with("x-note:")).count(), 1);
}

#[tokio::test]
async fn every_method_goes_out_as_it_is_named() {
    for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
        let seen = seen(outgoing(Request { method, ..request() }), |_, _| {}).await;
        assert_eq!(seen.line, format!("{} /api/charges HTTP/1.1", method.as_str()));
        assert_eq!(seen.body, b"{\"amount\":7}");
    }
}

#[tokio::test]
async fn configured_values_come_from_variables_and_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("token");
    std::fs::write(&path, "from a file\n").expect("written");
    let file = |path: &Path| Value::parse(&format!("file:{}", path.display()));
    let seen = seen(outgoing(request()), |config, settings| {
        settings.env = env(&[("PAYMENT_AUTH", "Bearer from a variable")]);
        config.headers.insert("authorization".into(), Value::parse("env:PAYMENT_AUTH"));
        config.headers.insert("x-token".into(), file(&path));
        config.headers.insert("x-shop".into(), Value::parse("7"));
    })
    .await;
    assert_eq!(seen.header("authorization"), Some("Bearer from a variable"));
    assert_eq!(seen.header("x-token"), Some("from a file"));
    assert_eq!(seen.header("x-shop"), Some("7"));
}

#[tokio::test]
async fn calls_to_a_participant_with_a_secret_are_signed() {
    let key = SigningKey::parse(&"shared".into()).expect("a key");
    let signed = |seen: &Seen| -> HeaderMap {
        let pair = |line: &String| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"))
        };
        seen.headers.iter().map(pair).collect()
    };
    let secret = |config: &mut ParticipantConfig, settings: &mut Settings| {
        settings.env = env(&[("PAYMENT_SECRET", "shared")]);
        config.secret = Some(Value::parse("env:PAYMENT_SECRET"));
    };
    let again = Request { key: Key::new(&saga(), "charge", OpKind::Action, 2), ..request() };
    for (request, id) in [
        (request(), "order:1:charge:action"),
        (again, "order:1:charge:action%2E2"),
        (query(), "order:1:charge:action:query:1700000000123"),
    ] {
        let seen = seen(outgoing(request), secret).await;
        assert_eq!(seen.header("webhook-id"), Some(id));
        assert_eq!(seen.header("webhook-timestamp"), Some("1700000000"));
        assert_eq!(key.verify(&signed(&seen), &seen.body, NOW), Ok(()));
    }
    let unsigned = seen(outgoing(request()), |_, _| {}).await;
    assert!(!unsigned.headers.iter().any(|line| line.starts_with("webhook-")));
}

#[tokio::test]
async fn a_resend_is_the_same_message_and_another_span() {
    let server = Server::answering(ok("{}")).await;
    let participants = crate::calls::at(server.url());
    answer(&participants, request()).await;
    answer(&participants, Request { attempt: 2, ..request() }).await;
    let [first, second] = &server.seen()[..] else { panic!("two requests") };
    assert_eq!(first.header("idempotency-key"), second.header("idempotency-key"));
    let trace = |seen: &Seen| {
        seen.header("traceparent").expect("a trace").split('-').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(trace(first)[1], trace(second)[1]);
    assert_ne!(trace(first)[2], trace(second)[2]);
}
