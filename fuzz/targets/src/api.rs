//! The HTTP API, called without a network: cursors, `If-Match`, callbacks, submissions, people's actions.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use amends_core::Answer;
use amends_engine::{Config, DefinitionText, Engine, SystemClock};
use amends_participants::{
    Called, Caller, Outgoing, ParticipantConfig, Participants, SigningKey, Value as Configured,
};
use amends_server::{App, ServerConfig};
use amends_store::Memory;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower_service::Service as _;

/// The most bytes of an answer to anything that is sent here.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The first step waits for a callback for ever; `b` signs its callbacks.
const DEFINITION: &str = r#"
saga = "order"
version = 1
[participants.a]
idempotency = "replay"
[participants.b]
idempotency = "replay"
[[step]]
name = "one"
after = []
effect = "none"
action = { to = "a", post = "/one", callback_timeout = "1d" }
[[step]]
name = "two"
after = []
effect = "none"
action = { to = "b", post = "/two", callback_timeout = "1d" }
"#;

/// Participants that accept everything and finish nothing.
struct Accepting;

#[async_trait::async_trait]
impl Caller for Accepting {
    async fn call(&self, _: Outgoing) -> Called {
        let answer = Answer::Response { status: 202, retry_after_ms: None, body: Vec::new() };
        Called::Answered { answer, took_ms: 1 }
    }
}

struct World {
    runtime: Runtime,
    router: Router,
}

thread_local! {
    /// One for each thread: what is sent to it must not change how it reads what is sent next.
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("invariant: a thread has a runtime");
        let router = runtime.block_on(Self::router());
        Self { runtime, router }
    }

    async fn router() -> Router {
        let engine = Engine::start(
            Config::new("fuzz", 1),
            Arc::new(Memory::new()),
            Arc::new(Accepting),
            Arc::new(SystemClock),
        );
        let engine = engine.await.unwrap_or_else(|e| panic!("{e}"));
        let registered = engine.register(DefinitionText::Toml(DEFINITION.into()), "order").await;
        registered.unwrap_or_else(|e| panic!("{e:?}"));
        let mut signing = ParticipantConfig::new("http://127.0.0.1:9");
        signing.secret = Some(Configured::parse("env:SECRET"));
        let configs = BTreeMap::from([
            ("a".to_owned(), ParticipantConfig::new("http://127.0.0.1:9")),
            ("b".to_owned(), signing),
        ]);
        let mut settings = amends_participants::Settings::system(None);
        settings.env = Arc::new(|name: &str| (name == "SECRET").then(|| SECRET.to_owned()));
        let participants =
            Participants::new(configs.clone(), settings).unwrap_or_else(|problems| panic!("{problems:?}"));
        let settings = amends_server::Settings::new(&ServerConfig::default(), &|_| None)
            .unwrap_or_else(|reason| panic!("{reason}"));
        let app = App::new(
            engine,
            Arc::new(amends_store::locks::MemoryLocks::new()),
            Arc::new(participants),
            &configs,
            settings,
        );
        let mut router = app.router();
        let order = json!({ "saga": "order", "id": "order:1", "input": {} }).to_string();
        let created = send(&mut router, Method::POST, "/v1/sagas", &[], order.into_bytes()).await;
        assert_eq!(created.map(|(status, _)| status), Some(StatusCode::CREATED));
        router
    }
}

/// Sends a request and judges the answer; gives its status and JSON. `None`: it can be no request.
fn call(method: Method, path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Option<(StatusCode, Value)> {
    WORLD.with(|world| {
        let World { runtime, router } = world.get_or_init(World::new);
        runtime.block_on(send(&mut router.clone(), method, path, headers, body.to_vec()))
    })
}

async fn send(
    router: &mut Router,
    method: Method,
    path: &str,
    headers: &[(&str, &[u8])],
    body: Vec<u8>,
) -> Option<(StatusCode, Value)> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).ok()?);
    }
    let request = request.body(Body::from(body)).ok()?;
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let (head, body) = response.into_parts();
    let bytes: Bytes = body.collect().await.unwrap_or_else(|e| panic!("half an answer: {e}")).to_bytes();
    assert!(bytes.len() <= ANSWER_BYTES_MAX, "an answer of {} bytes", bytes.len());
    let json: Value = serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{e}: {bytes:?}"));
    if !head.status.is_success() {
        assert!(head.status.is_client_error(), "{}: {json}", head.status);
        assert_eq!(head.headers["content-type"], "application/problem+json");
        let kind = json["type"].as_str().unwrap_or_default();
        assert!(kind.starts_with("urn:amends:problem:"), "{json}");
        assert!(json["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{json}");
    }
    Some((head.status, json))
}

/// A cursor, of each list that has one.
///
/// # Panics
/// If the API does what it must not, or takes a cursor that it never gave.
pub fn api_cursor(data: &[u8]) {
    let cursor = percent_encode(data, NON_ALPHANUMERIC).to_string();
    let is_raw = data.iter().all(u8::is_ascii_graphic);
    for path in ["/v1/sagas", "/v1/sagas/order%3A1/journal", "/v1/definitions"] {
        let _ = call(Method::GET, &format!("{path}?limit=2&cursor={cursor}"), &[], b"");
        if is_raw {
            // As it is, it may be any query string at all.
            let _ = call(Method::GET, &format!("{path}?{}", String::from_utf8_lossy(data)), &[], b"");
        }
    }
}

/// `If-Match` and `traceparent`, a line each; the rest is a body.
///
/// # Panics
/// If the API does what it must not, or acts without having been told the right version.
pub fn api_if_match(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let (if_match, trace) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = parts.next().unwrap_or(br#"{"reason":"r","step":"one"}"#);
    let headers = [("if-match", if_match), ("traceparent", trace)];
    let answered = call(Method::POST, "/v1/sagas/order%3A1/skip", &headers, body);
    // What is under way cannot be skipped, whatever version it is.
    assert!(answered.is_none_or(|(status, _)| status.is_client_error()), "it was skipped");
}

/// A submission. Its definition is known, so that it may get as far as the store.
///
/// # Panics
/// If the API does what it must not, or answers another saga than was submitted.
pub fn api_submission(data: &[u8]) {
    let Some((status, saga)) = call(Method::POST, "/v1/sagas", &[], data) else { return };
    if status.is_success() {
        let sent: Value = serde_json::from_slice(data).unwrap_or_else(|e| panic!("no JSON was taken: {e}"));
        assert_eq!(saga["id"], sent["id"], "another id");
        assert_eq!(saga["input"], sent["input"], "another input");
    }
    let _ = call(Method::PUT, "/v1/definitions/other", &[], data);
    let toml: [(&str, &[u8]); 1] = [("content-type", b"application/toml")];
    let _ = call(Method::PUT, "/v1/definitions/other", &toml, data);
}

/// A person's action: its name in a line, then the body.
///
/// # Panics
/// If the API does what it must not.
pub fn api_action(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (action, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let action = percent_encode(action, NON_ALPHANUMERIC).to_string();
    // Of a saga that does not exist: what one action did must not decide how the next is read.
    let Some((status, _)) =
        call(Method::POST, &format!("/v1/sagas/nobody/{action}"), &[("if-match", b"\"1\"")], body)
    else {
        return;
    };
    assert!(status.is_client_error(), "{status} for a saga that does not exist");
}

/// A callback's body: unsigned, signed by its participant, and with a signature that is wrong.
///
/// # Panics
/// If the API does what it must not, or takes a callback for `b` that `b` did not sign.
pub fn api_callback(data: &[u8]) {
    if let Some((status, _)) = call(Method::POST, "/v1/callbacks", &[], data)
        && status == StatusCode::ACCEPTED
    {
        let sent: Value = serde_json::from_slice(data).unwrap_or_else(|e| panic!("no JSON was taken: {e}"));
        assert!(sent["key"] != "order:1:two:action", "an unsigned callback was taken for whoever signs");
    }
    let key = SigningKey::parse(&SecretString::from(SECRET)).expect("invariant: it is a secret");
    let now_s = now_s();
    let at = now_s.to_string();
    let signed = |signature: &str| {
        let headers: [(&str, &[u8]); 3] = [
            ("webhook-id", b"m1"),
            ("webhook-timestamp", at.as_bytes()),
            ("webhook-signature", signature.as_bytes()),
        ];
        call(Method::POST, "/v1/callbacks", &headers, data)
    };
    let _ = signed(&key.sign("m1", now_s, data));
    let forged = signed(&key.sign("m2", now_s, data));
    assert!(
        forged.is_none_or(|(status, _)| status == StatusCode::UNAUTHORIZED),
        "a forged signature was taken"
    );
}

fn now_s() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
