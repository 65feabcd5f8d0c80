//! What a request looks like on the wire: its target, its headers, its signature.

use std::borrow::Cow;

use amends_core::Time;
use amends_core::definition::Method as CoreMethod;
use amends_core::request::Payload;
use bytes::Bytes;
use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::address::Address;
use crate::port::Outgoing;
use crate::signature::{SigningKey, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use crate::trace::traceparent;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const AMENDS_SAGA: HeaderName = HeaderName::from_static("amends-saga");
const AMENDS_STEP: HeaderName = HeaderName::from_static("amends-step");
const AMENDS_OPERATION: HeaderName = HeaderName::from_static("amends-operation");
const AMENDS_ATTEMPT: HeaderName = HeaderName::from_static("amends-attempt");
const AMENDS_EPOCH: HeaderName = HeaderName::from_static("amends-epoch");
const AMENDS_EXPIRES: HeaderName = HeaderName::from_static("amends-expires");
const AMENDS_CALLBACK: HeaderName = HeaderName::from_static("amends-callback");
const AMENDS_ACTION_KEY: HeaderName = HeaderName::from_static("amends-action-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// As in URLs: everything but unreserved characters (RFC 3986) and `:`, which every key has.
const AS_IN_URLS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
/// A dot separates the parts of what is signed, so a message's id has none.
const WITHOUT_DOT: &AsciiSet = &AS_IN_URLS.add(b'.');

/// Headers that only amends sets: a definition or a configuration that could would break framing, or forge who calls.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    const FRAMING: [HeaderName; 8] =
        [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER, UPGRADE, EXPECT];
    const HOP: [&str; 2] = ["keep-alive", "proxy-connection"];
    FRAMING.contains(name)
        || HOP.contains(&name.as_str())
        || *name == TRACEPARENT
        || name.as_str().starts_with("amends-")
        || name.as_str().starts_with("webhook-")
}

/// Everything that is added to a request here rather than by the core.
pub(crate) struct Additions<'a> {
    pub(crate) address: &'a Address,
    /// Configured headers, resolved.
    pub(crate) headers: &'a [(HeaderName, HeaderValue)],
    pub(crate) key: Option<&'a SigningKey>,
    pub(crate) callback: Option<&'a HeaderValue>,
}

/// A request that is complete but for what depends on the moment of sending.
pub(crate) struct Prepared {
    method: Method,
    target: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// Puts together what can be put together before there is a connection.
///
/// # Errors
/// Why the request cannot be sent as it is configured or rendered, in plain words; values of configured headers are not
/// repeated.
pub(crate) fn prepare(outgoing: &Outgoing, additions: &Additions<'_>) -> Result<Prepared, String> {
    let request = &outgoing.request;
    let mut headers = HeaderMap::with_capacity(24);
    headers.insert(HOST, additions.address.host.clone());
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("amends/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(IDEMPOTENCY_KEY, encoded(request.key.as_str(), AS_IN_URLS));
    let body = match &request.body {
        Some(Payload::Json(tree)) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Bytes::from(serde_json::to_vec(tree).expect("a JSON tree can always be written"))
        }
        Some(Payload::Form(form)) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            Bytes::from(form.clone())
        }
        Some(Payload::Redis(_)) => {
            return Err(format!(
                "the definition sends Redis commands to `{to}`, and amends.toml says it speaks HTTP: write url = \"redis://…\" there",
                to = request.to
            ));
        }
        None => Bytes::new(),
    };
    let method = method(request.method);
    // The HTTP library says nothing about an absent body; some servers answer 411 to that.
    if body.is_empty() && [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    for (name, value) in &request.headers {
        let (name, value) = rendered(name, value)?;
        headers.insert(name, value);
    }
    for (name, value) in additions.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers.insert(AMENDS_SAGA, encoded(outgoing.saga.as_str(), AS_IN_URLS));
    headers.insert(AMENDS_STEP, encoded(&request.step, AS_IN_URLS));
    headers.insert(AMENDS_OPERATION, HeaderValue::from_static(request.operation.as_str()));
    headers.insert(AMENDS_ATTEMPT, request.attempt.into());
    headers.insert(AMENDS_EPOCH, outgoing.epoch.into());
    if let Some(action_key) = &request.action_key {
        headers.insert(AMENDS_ACTION_KEY, encoded(action_key.as_str(), AS_IN_URLS));
    }
    if let Some(callback) = additions.callback {
        headers.insert(AMENDS_CALLBACK, callback.clone());
    }
    let target = Uri::from(additions.address.join(&request.path)?);
    Ok(Prepared { method, target, headers, body })
}

impl Prepared {
    /// Adds what depends on the moment of sending. To be called right before the lease is checked.
    pub(crate) fn stamp(
        mut self,
        outgoing: &Outgoing,
        additions: &Additions<'_>,
        now: Time,
    ) -> Request<Full<Bytes>> {
        let request = &outgoing.request;
        let headers = &mut self.headers;
        headers.insert(AMENDS_EXPIRES, expires(now.plus_ms(request.timeout_ms)));
        let trace = traceparent(outgoing.trace.as_deref(), &outgoing.saga, request, outgoing.epoch, now);
        headers.insert(TRACEPARENT, ascii(&trace));
        if let Some(key) = additions.key {
            // A message sent again is the same message; each question is another.
            let mut id = utf8_percent_encode(request.key.as_str(), WITHOUT_DOT).to_string();
            if request.is_query {
                id.push_str(&format!(":query:{}", now.0));
            }
            let now_s = now.0.div_euclid(1_000);
            headers.insert(WEBHOOK_SIGNATURE, ascii(&key.sign(&id, now_s, &self.body)));
            headers.insert(WEBHOOK_TIMESTAMP, now_s.into());
            headers.insert(WEBHOOK_ID, ascii(&id));
        }
        let mut built = Request::new(Full::new(self.body));
        *built.method_mut() = self.method;
        *built.uri_mut() = self.target;
        *built.headers_mut() = self.headers;
        built
    }
}

fn rendered(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("the definition's header {name:?} is no header name"))?;
    if is_reserved(&parsed) {
        return Err(format!("the definition sets the header {name}, which is amends' own; remove it"));
    }
    let value = HeaderValue::from_str(value).map_err(|_| {
        format!("the value of the definition's header {name} has characters that no header may have")
    })?;
    Ok((parsed, value))
}

fn encoded(text: &str, set: &'static AsciiSet) -> HeaderValue {
    ascii(&Cow::from(utf8_percent_encode(text, set)))
}

fn ascii(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("visible ASCII is a header value")
}

/// RFC 3339 in UTC with milliseconds.
fn expires(at: Time) -> HeaderValue {
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::MAX);
    ascii(&format!("{at:.3}"))
}

fn method(method: CoreMethod) -> Method {
    match method {
        CoreMethod::Get => Method::GET,
        CoreMethod::Post => Method::POST,
        CoreMethod::Put => Method::PUT,
        CoreMethod::Patch => Method::PATCH,
        CoreMethod::Delete => Method::DELETE,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use amends_core::request::Request as CoreRequest;
    use amends_core::{Key, OpKind, SagaId};
    use serde_json::json;

    use super::*;

    /// An ordinary action.
    pub(crate) fn request() -> CoreRequest {
        let saga = SagaId::new("order:1").expect("an id");
        CoreRequest {
            to: "payment".into(),
            method: CoreMethod::Post,
            path: "/charges".into(),
            headers: vec![],
            body: Some(Payload::Json(json!({"amount": 7}))),
            timeout_ms: 3_000,
            key: Key::new(&saga, "charge", OpKind::Action, 1),
            action_key: None,
            step: "charge".into(),
            operation: OpKind::Action,
            attempt: 1,
            is_query: false,
        }
    }

    fn built(id: &str, request: CoreRequest) -> Result<Request<Full<Bytes>>, String> {
        let address = Address::parse("http://127.0.0.1:9001/api").expect("valid");
        let configured = [(HeaderName::from_static("authorization"), HeaderValue::from_static("configured"))];
        let additions = Additions { address: &address, headers: &configured, key: None, callback: None };
        let saga = SagaId::new(id).expect("an id");
        let outgoing = Outgoing { request, saga, epoch: 7, trace: None, lease: Arc::new(|| true) };
        Ok(prepare(&outgoing, &additions)?.stamp(&outgoing, &additions, Time(1_700_000_000_123)))
    }

    fn header<'a>(request: &'a Request<Full<Bytes>>, name: &str) -> &'a str {
        request.headers().get(name).unwrap_or_else(|| panic!("{name}")).to_str().expect("ASCII")
    }

    #[test]
    fn ids_and_keys_are_percent_encoded_as_in_urls() {
        let id = "order/1 \u{e4}~._-:%";
        let saga = SagaId::new(id).expect("an id");
        let key = Key::new(&saga, "charge", OpKind::Action, 2);
        let built = built(id, CoreRequest { key, ..request() }).expect("built");
        assert_eq!(header(&built, "amends-saga"), "order%2F1%20%C3%A4~._-:%25");
        assert_eq!(header(&built, "idempotency-key"), "order%2F1%20%C3%A4~._-:%25:charge:action.2");
    }

    #[test]
    fn expires_is_the_moment_of_sending_plus_the_timeout() {
        let built = built("order:1", request()).expect("built");
        assert_eq!(header(&built, "amends-expires"), "2023-11-14T22:13:23.123Z");
        let whole = expires(Time(1_700_000_000_000));
        assert_eq!(whole, "2023-11-14T22:13:20.000Z");
        assert!(!expires(Time(i64::MAX)).is_empty());
    }

    #[test]
    fn a_definition_may_replace_the_key_and_the_media_types_only() {
        let headers = [
            ("idempotency-key", "abc"),
            ("accept", "text/xml"),
            ("content-type", "x/y"),
            ("authorization", "mine"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let built = built("order:1", CoreRequest { headers, ..request() }).expect("built");
        assert_eq!(header(&built, "idempotency-key"), "abc");
        assert_eq!(header(&built, "accept"), "text/xml");
        assert_eq!(header(&built, "content-type"), "x/y");
        assert_eq!(header(&built, "authorization"), "configured");
        assert_eq!(built.headers().get_all("authorization").iter().count(), 1);
    }

    #[test]
    fn headers_that_break_framing_or_forge_the_caller_are_refused() {
        for name in [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "upgrade",
            "expect",
            "te",
            "trailer",
            "amends-epoch",
            "amends-anything",
            "webhook-id",
            "traceparent",
            "bad name",
            "",
        ] {
            let headers = vec![(name.to_owned(), "1".to_owned())];
            assert!(built("order:1", CoreRequest { headers, ..request() }).is_err(), "{name}");
        }
        let headers = vec![("x-note".to_owned(), "a\r\nhost: b".to_owned())];
        let error = built("order:1", CoreRequest { headers, ..request() }).expect_err("two lines");
        assert!(error.contains("x-note has characters that no header may have"), "{error}");
    }
}
