//! A participant over HTTP. It may run in a process of its own that is killed at any moment: what it did is in its ledger.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::ledger::Ledger;
use crate::shop;
use crate::{Fault, Lie, TIMEOUT};

/// A request to this path ends all faults.
pub const CALM: &str = "/-/calm";

/// The largest request body; the orders' are a tenth of it.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How long what is still on its way may take at the end; it is much more than any fault's delay.
const END_MAX: Duration = Duration::from_secs(20);

/// Told the name of each fault that is met.
pub type Met = Arc<dyn Fn(&'static str) + Send + Sync>;

/// What a participant is opened with.
#[derive(Clone)]
pub struct Options {
    /// Its name: inventory, payment or shipping.
    pub name: String,
    /// Where its books are.
    pub folder: PathBuf,
    /// What faults are drawn from.
    pub seed: u64,
    /// The share of requests that meet a fault.
    pub fault_rate: f64,
    /// Kill the process at this request to do something, counted from its start.
    pub crash_at: Option<u32>,
    /// How it breaks its word, if it does.
    pub lie: Option<Lie>,
    /// Told of each fault.
    pub met: Met,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// A participant, with its books open. Clones are the same participant.
#[derive(Debug, Clone)]
pub struct Participant(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    /// How many requests came about each key.
    requests: HashMap<String, u32>,
    calls: u32,
    rate: f64,
}

impl Participant {
    /// Opens its books, or begins them.
    ///
    /// # Errors
    /// If they cannot be read or written.
    pub fn open(options: Options) -> io::Result<Self> {
        let ledger = Ledger::open(&options.folder, &options.name, options.lie)?;
        let state = State { ledger, requests: HashMap::new(), calls: 0, rate: options.fault_rate };
        Ok(Self(Arc::new(Inner { options, state: Mutex::new(state) })))
    }

    /// Answers requests until `stop` is there; returns when what was still to arrive late has arrived.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (pending, mut all_done) = mpsc::channel(1);
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    tokio::spawn(connection(stream, self.clone(), pending.clone()));
                },
                () = &mut stop => break,
            }
        }
        // Whatever is still on its way holds a sender of its own.
        drop((pending, listener));
        let _ = tokio::time::timeout(END_MAX, all_done.recv()).await;
    }

    /// Ends all faults.
    pub fn calm(&self) {
        self.lock().rate = 0.0;
    }

    /// Carries a request out. One at a time, and on disk before it is answered: this is what makes the guarantees hold.
    fn carry_out(&self, request: &shop::Request) -> io::Result<shop::Answer> {
        shop::handle(&mut self.lock().ledger, request)
    }

    /// The fault of this request, if it meets one, and whether it is the one at which the process dies.
    fn fate(&self, request: &shop::Request) -> (Option<Fault>, bool) {
        let mut state = self.lock();
        let n = state.requests.entry(request.key.clone()).or_default();
        *n += 1;
        let n = *n;
        let Options { seed, crash_at, .. } = self.0.options;
        let rate = state.rate;
        let mut dies = false;
        if !request.is_query() {
            state.calls += 1;
            dies = rate > 0.0 && crash_at == Some(state.calls);
        }
        // Ids differ from run to run in the part before the last `-`.
        let key = request.key.rsplit('-').next().unwrap_or_default();
        (Fault::draw(seed, rate, key, n, request.is_query(), !request.is_unprotected()), dies)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by everything that may still do something.
type Pending = mpsc::Sender<Infallible>;

async fn connection(stream: TcpStream, participant: Participant, pending: Pending) {
    let service = service_fn(move |request| answer(request, participant.clone(), pending.clone()));
    // A connection that breaks is its caller's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Answered = Result<Response<Full<Bytes>>, io::Error>;

async fn answer(request: http::Request<Incoming>, participant: Participant, pending: Pending) -> Answered {
    if request.uri().path() == CALM {
        participant.calm();
        return Ok(respond((StatusCode::OK, Value::Null)));
    }
    let request = match read(request).await {
        Ok(request) => request,
        Err(reason) => return Ok(respond((StatusCode::BAD_REQUEST, json!({ "error": reason })))),
    };
    let (fault, dies) = participant.fate(&request);
    if dies {
        return Err(die(&participant, &request));
    }
    if let Some(fault) = fault {
        (participant.0.options.met)(fault.name());
    }
    match fault {
        None => participant.carry_out(&request).map(respond),
        Some(Fault::Busy) => {
            let mut busy = respond((StatusCode::SERVICE_UNAVAILABLE, json!({ "error": "busy" })));
            busy.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
            Ok(busy)
        }
        Some(Fault::ErrorBefore) => Ok(respond((StatusCode::INTERNAL_SERVER_ERROR, Value::Null))),
        Some(Fault::ErrorAfter) => {
            participant.carry_out(&request)?;
            Ok(respond((StatusCode::BAD_GATEWAY, Value::Null)))
        }
        Some(Fault::SilentBefore) => silence().await,
        Some(Fault::SilentAfter) => {
            participant.carry_out(&request)?;
            silence().await
        }
        Some(Fault::Cut) => {
            participant.carry_out(&request)?;
            Err(io::Error::other("the connection is cut"))
        }
        Some(Fault::Late(after)) => {
            carry_out_later(participant, request, after, pending);
            silence().await
        }
        Some(Fault::Twice(after)) => {
            let answer = participant.carry_out(&request)?;
            carry_out_later(participant, request, after, pending);
            Ok(respond(answer))
        }
    }
}

/// Carries a request out when its caller no longer waits for it, or has an answer already.
fn carry_out_later(participant: Participant, request: shop::Request, after: Duration, pending: Pending) {
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        let _ = participant.carry_out(&request);
        drop(pending);
    });
}

/// Longer than any caller waits.
async fn silence() -> Answered {
    tokio::time::sleep(TIMEOUT * 3).await;
    Err(io::Error::other("nobody waits any more"))
}

/// Ends the process as `kill -9` does: every other time before the request is carried out, else after it, unanswered.
fn die(participant: &Participant, request: &shop::Request) -> io::Error {
    let before = participant.0.options.crash_at.is_some_and(|at| at % 2 == 0);
    if !before && let Err(e) = participant.carry_out(request) {
        return e;
    }
    match rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL) {
        Ok(()) => io::Error::other("killed"),
        Err(e) => e.into(),
    }
}

async fn read(request: http::Request<Incoming>) -> Result<shop::Request, String> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|e| e.to_string())?.to_bytes();
    let is_query = head.method == http::Method::GET;
    let path = head.uri.path();
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (path, key) = if is_query {
        let (path, key) = path.rsplit_once('/').ok_or("a query ends with a key")?;
        (path, Some(decode(key)))
    } else {
        (path, text(&head.headers, "idempotency-key").map(decode))
    };
    Ok(shop::Request {
        path: path.to_owned(),
        key: key.ok_or("Idempotency-Key is missing")?,
        action_key: text(&head.headers, "amends-action-key").map(decode),
        expires: text(&head.headers, "amends-expires").and_then(|at| at.parse().ok()),
        body: if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).map_err(|e| e.to_string())?
        },
        method: head.method,
    })
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn respond((status, body): shop::Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.to_string().into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
