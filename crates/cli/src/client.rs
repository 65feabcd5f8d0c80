//! The client of the HTTP API, as the commands use it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::problem;

/// The environment variable that holds the bearer token. There is no flag: other users see command lines.
const TOKEN: &str = "AMENDS_TOKEN";
/// How long an answer may take, beyond a wait that was asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer read: a journal page of the largest payloads fits.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// What needs no encoding in a path segment or a query value (RFC 3986, unreserved, and `:` as ids have it).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A connection to one server.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    base: String,
    authorization: Option<HeaderValue>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What the server answered to a request that it carried out.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// The JSON; null if there was none.
    pub(crate) body: Value,
}

/// A body to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    content_type: &'static str,
    bytes: Bytes,
}

impl Payload {
    /// A JSON body.
    pub(crate) fn json(value: &Value) -> Self {
        Self { content_type: "application/json", bytes: value.to_string().into() }
    }

    /// A TOML body.
    pub(crate) fn toml(text: String) -> Self {
        Self { content_type: "application/toml", bytes: text.into() }
    }
}

impl Api {
    /// Prepares to talk to the server at `base` (`http://…` or `https://…`), with the token of the environment.
    ///
    /// # Errors
    /// If `base` is no such URL, or the token cannot be a header value.
    pub(crate) fn new(base: &str) -> Result<Self, Failure> {
        let authorization = match std::env::var(TOKEN) {
            Err(_) => None,
            Ok(token) => {
                let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
                let mut value = value.map_err(|_| {
                    Failure::usage(
                        format!("{TOKEN} holds characters that no header can carry"),
                        "set it to the token alone",
                    )
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { authorization, ..Self::without_token(base)? })
    }

    /// Prepares to talk to a server, or to a participant of the demo, that knows nobody.
    ///
    /// # Errors
    /// If `base` is no such URL.
    pub(crate) fn without_token(base: &str) -> Result<Self, Failure> {
        let wrong = |what: String| {
            Failure::usage(what, "give --server or AMENDS_SERVER a URL such as http://127.0.0.1:7070")
        };
        let uri: Uri = base.parse().map_err(|e| wrong(format!("`{base}` is not a URL: {e}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https"))
            || uri.host().is_none()
            || uri.query().is_some()
        {
            return Err(wrong(format!("`{base}` is not the http:// or https:// URL of a server")));
        }
        // Reading the system's certificates takes longer than most commands: only where there is something to verify.
        let builder = HttpsConnectorBuilder::new();
        let connector = if uri.scheme_str() == Some("https") {
            builder.with_native_roots().map_err(|e| {
                Failure::failed(
                    format!("the system's certificates cannot be read: {e}"),
                    "install the package ca-certificates",
                )
            })?
        } else {
            builder.with_tls_config(no_roots())
        };
        let connector = connector.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base: base.trim_end_matches('/').to_owned(), authorization: None, client })
    }

    /// Reads what is text, not JSON.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Failure> {
        let request = self.request(Method::GET, path, None, None)?;
        let (status, bytes) = self.in_time(request, Duration::ZERO).await?;
        if !status.is_success() {
            return Err(problem::failure(status, &bytes));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads what is an answer whatever its status: null if it is no JSON.
    pub(crate) async fn look(&self, path: &str) -> Result<Answer, Failure> {
        let request = self.request(Method::GET, path, None, None)?;
        let (status, bytes) = self.in_time(request, Duration::ZERO).await?;
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
    }

    /// Reads.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, None, None, Duration::ZERO).await
    }

    /// Sends `body`. `if_match`: the version that must still be the current one. `wait`: how long the server was asked to
    /// wait before it answers.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Payload>,
        if_match: Option<u64>,
        wait: Duration,
    ) -> Result<Answer, Failure> {
        let request = self.request(method, path, body, if_match)?;
        let (status, bytes) = self.in_time(request, wait).await?;
        if !status.is_success() {
            return Err(problem::failure(status, &bytes));
        }
        if bytes.is_empty() {
            return Ok(Answer { status, body: Value::Null });
        }
        let body = serde_json::from_slice(&bytes).map_err(|e| {
            Failure::failed(
                format!("{} answered something that is not JSON ({e})", self.base),
                "check that --server is an amends server and not something in front of it",
            )
        })?;
        Ok(Answer { status, body })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Payload>,
        if_match: Option<u64>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(version) = if_match {
            request = request.header(header::IF_MATCH, format!("\"{version}\""));
        }
        let mut bytes = Bytes::new();
        if let Some(payload) = body {
            request = request.header(header::CONTENT_TYPE, payload.content_type);
            bytes = payload.bytes;
        }
        request.body(Full::new(bytes)).map_err(|e| {
            Failure::usage(
                format!("no request can be made of {}{path}: {e}", self.base),
                "check --server and the id",
            )
        })
    }

    async fn in_time(
        &self,
        request: Request<Full<Bytes>>,
        wait: Duration,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let limit = wait + ANSWER_TIMEOUT;
        tokio::time::timeout(limit, self.exchange(request)).await.unwrap_or_else(|_| {
            Err(Failure::new(
                Exit::TimeOver,
                format!("{} has not answered within {} s", self.base, limit.as_secs()),
                "whether it was carried out is not known: look (`amends saga show ID`), then repeat the command, which is safe",
            ))
        })
    }

    /// The status and the body.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Failure> {
        let answer = self.client.request(request).await.map_err(|e| self.unreachable(&e))?;
        let (head, body) = answer.into_parts();
        let bytes = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|e| {
            Failure::failed(
                format!("the answer of {} broke off: {e}", self.base),
                "whether it was carried out is not known: repeat the command, which is safe",
            )
        })?;
        Ok((head.status, bytes.to_bytes()))
    }

    fn unreachable(&self, error: &hyper_util::client::legacy::Error) -> Failure {
        let mut why = String::new();
        let mut source: Option<&dyn std::error::Error> = Some(error);
        while let Some(cause) = source {
            why = cause.to_string();
            source = cause.source();
        }
        if error.is_connect() {
            Failure::failed(
                format!("no server answers at {} ({why})", self.base),
                "start one with `amends serve`, or name another with --server or AMENDS_SERVER",
            )
        } else {
            Failure::failed(
                format!("the connection to {} was lost ({why})", self.base),
                "whether it was carried out is not known: repeat the command, which is safe",
            )
        }
    }
}

/// Trusts nobody: for a client that only talks plain HTTP.
fn no_roots() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// A value as one segment of a path, or as a value of a query string.
pub(crate) fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, ENCODED).to_string()
}

/// `?a=b&c=d` of the parameters that have a value; empty if none has.
pub(crate) fn query(parameters: &[(&str, Option<String>)]) -> String {
    let given =
        parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_deref()?))));
    let joined = given.collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_one_segment() {
        assert_eq!(encode("order:7/8 é"), "order:7%2F8%20%C3%A9");
        assert_eq!(query(&[("a", None), ("b", Some("x&y".into())), ("c", Some("1".into()))]), "?b=x%26y&c=1");
        assert_eq!(query(&[("a", None)]), "");
    }

    #[test]
    fn only_servers_are_accepted() {
        for wrong in ["", "localhost:7070", "ftp://x", "http://", "/v1", "http://a?b"] {
            let failure = Api::new(wrong).err().unwrap_or_else(|| panic!("{wrong} was accepted"));
            assert_eq!(failure.exit, Exit::Usage);
        }
        assert_eq!(Api::new("http://127.0.0.1:1/").unwrap().base, "http://127.0.0.1:1");
    }
}
