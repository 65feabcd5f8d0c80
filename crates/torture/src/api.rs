//! A client of the HTTP API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::patience::LONG;

/// How long one answer may take; the server gives a wait of its own less.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long one answer may take where another server can be asked.
const ANSWER_ELSEWHERE: Duration = Duration::from_secs(4);
/// How long a client pauses before it repeats what was not answered.
const AGAIN: Duration = Duration::from_millis(60);
/// The largest answer read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// What needs no encoding in a path segment.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A client of one server, or of several that share a store: then one that does not answer is left for the next. Clones share
/// connections, and where they are.
#[derive(Debug, Clone)]
pub struct Api {
    bases: Arc<[String]>,
    /// Which of them is asked, counted on.
    at: Arc<AtomicUsize>,
    answer_max: Duration,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The JSON; null if it was none.
    pub body: Value,
    /// The bytes as text.
    pub text: String,
}

impl Answer {
    /// The last part of a problem's type; empty if it is no problem.
    #[must_use]
    pub fn problem(&self) -> &str {
        self.body["type"].as_str().and_then(|urn| urn.strip_prefix("urn:amends:problem:")).unwrap_or_default()
    }

    /// Itself, if it has this status.
    ///
    /// # Errors
    /// If it has another one.
    pub fn expect(self, status: u16) -> Result<Self> {
        ensure!(self.status == status, "{} instead of {status}: {}", self.status, self.text);
        Ok(self)
    }
}

impl Api {
    /// A client of the server at `base`, such as `http://127.0.0.1:7070`.
    #[must_use]
    pub fn new(base: &str) -> Self {
        Self { answer_max: ANSWER_MAX, ..Self::across(&[base.to_owned()]) }
    }

    /// A client of several servers.
    #[must_use]
    pub fn across(bases: &[String]) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { bases: bases.into(), at: Arc::default(), answer_max: ANSWER_ELSEWHERE, client }
    }

    /// The same, but asking the server with this number first, counted round.
    #[must_use]
    pub fn beginning_at(&self, number: u32) -> Self {
        let at = Arc::new(AtomicUsize::new(number as usize));
        Self { at, ..self.clone() }
    }

    fn base(&self) -> &str {
        &self.bases[self.at.load(Ordering::Relaxed) % self.bases.len()]
    }

    /// Sends one request, once.
    ///
    /// # Errors
    /// If there was no whole answer: whether it was carried out is then not known.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into()))?;
        let exchange = async {
            let answer = self.client.request(request).await?;
            let (head, body) = answer.into_parts();
            let bytes =
                Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|e| anyhow::anyhow!("{e}"))?;
            Ok::<_, anyhow::Error>((head.status.as_u16(), bytes.to_bytes()))
        };
        let (status, bytes) =
            tokio::time::timeout(self.answer_max, exchange).await.context("no answer in time")??;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), text })
    }

    /// Sends JSON, once.
    ///
    /// # Errors
    /// As [`Api::send`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let json = [(header::CONTENT_TYPE.as_str(), "application/json")];
        self.send(Method::POST, path, &json, body.to_string()).await
    }

    /// Reads, once.
    ///
    /// # Errors
    /// As [`Api::send`].
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// Sends JSON until there is an answer that is not 503: the server may be dead, or its store away, for a while.
    ///
    /// # Errors
    /// If there is none within [`LONG`].
    pub async fn insist(&self, path: &str, body: &Value) -> Result<Answer> {
        self.persist(|| self.post(path, body)).await
    }

    /// Reads until there is an answer that is not 503.
    ///
    /// # Errors
    /// As [`Api::insist`].
    pub async fn look(&self, path: &str) -> Result<Answer> {
        self.persist(|| self.get(path)).await
    }

    /// Registers a definition in TOML.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn define(&self, toml: &str) -> Result<()> {
        let name = toml.split('"').nth(1).context("a definition begins with saga = \"name\"")?;
        let toml_type = [(header::CONTENT_TYPE.as_str(), "application/toml")];
        let path = format!("/v1/definitions/{name}");
        let answer = self.persist(|| self.send(Method::PUT, &path, &toml_type, toml.to_owned())).await?;
        ensure!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text);
        Ok(())
    }

    /// Submits a saga until it is accepted.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn start(&self, saga: &str, id: &str, input: &Value) -> Result<Value> {
        let answer = self.insist("/v1/sagas", &json!({ "saga": saga, "id": id, "input": input })).await?;
        ensure!(matches!(answer.status, 200 | 201), "{id}: {} {}", answer.status, answer.text);
        Ok(answer.body)
    }

    /// The saga.
    ///
    /// # Errors
    /// If it is not known.
    pub async fn saga(&self, id: &str) -> Result<Value> {
        Ok(self.look(&saga_path(id)).await?.expect(200)?.body)
    }

    /// Its journal: the first 500 entries, which is all of it unless something is very wrong.
    ///
    /// # Errors
    /// If the saga is not known.
    pub async fn journal(&self, id: &str) -> Result<Vec<Value>> {
        let page = self.look(&format!("{}/journal", saga_path(id))).await?.expect(200)?.body;
        Ok(page["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until the saga is as it should be.
    ///
    /// # Errors
    /// If it is not within [`LONG`].
    pub async fn wait(&self, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = Value::Null;
        let began = Instant::now();
        while began.elapsed() < LONG {
            last = self.saga(id).await?;
            if is(&last) {
                return Ok(last);
            }
            tokio::time::sleep(AGAIN).await;
        }
        bail!("{id} is not {what}: {last:#}")
    }

    /// Waits until the saga has this status.
    ///
    /// # Errors
    /// As [`Api::wait`].
    pub async fn ends(&self, id: &str, status: &str) -> Result<Value> {
        self.wait(id, status, |saga| saga["status"] == status).await
    }

    /// Asks for a person's action on a saga as its version now is.
    ///
    /// # Errors
    /// As [`Api::send`].
    pub async fn act(&self, id: &str, action: &str, version: u64, body: &Value) -> Result<Answer> {
        let version = format!("\"{version}\"");
        let headers = [(header::CONTENT_TYPE.as_str(), "application/json"), ("if-match", &version)];
        self.send(Method::POST, &format!("{}/{action}", saga_path(id)), &headers, body.to_string()).await
    }

    /// The sum of a metric over all its labels.
    ///
    /// # Errors
    /// As [`Api::look`].
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.look("/metrics").await?.expect(200)?.text;
        let of_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        Ok(text.lines().filter(of_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Repeats until there is an answer that is not 503, at the next server each time.
    async fn persist<F: Future<Output = Result<Answer>>>(
        &self,
        mut send: impl FnMut() -> F,
    ) -> Result<Answer> {
        let began = Instant::now();
        loop {
            let last = match send().await {
                Ok(answer) if answer.status != 503 => return Ok(answer),
                Ok(answer) => answer.text,
                Err(error) => format!("{error:#}"),
            };
            ensure!(began.elapsed() < LONG, "no answer within {} s: {last}", LONG.as_secs());
            self.at.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// The path of a saga.
#[must_use]
pub fn saga_path(id: &str) -> String {
    format!("/v1/sagas/{}", utf8_percent_encode(id, ENCODED))
}
