//! Participants that do whatever a fault needs them to do.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// Method and path, such as `POST /charges`.
    pub what: String,
    /// `Idempotency-Key`, decoded; empty if there is none.
    pub key: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: String,
}

/// What is answered.
pub enum Reply {
    /// This status and JSON.
    Json(u16, Value),
    /// A redirect to this URL.
    Redirect(String),
    /// 200, and a body of so many bytes each this much after the one before, without end.
    Endless(usize, Duration),
    /// Nothing.
    Silence,
    /// What comes of waiting.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl Reply {
    /// What comes of this future.
    pub fn later(future: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::Later(future.boxed())
    }
}

type Answers = dyn Fn(&Call) -> Reply + Send + Sync;

/// A server that answers by a script. It stops when it is dropped.
pub struct Script {
    /// Where it is.
    pub at: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    serving: JoinHandle<()>,
}

impl Script {
    /// Starts one.
    ///
    /// # Errors
    /// If there is no address left.
    pub async fn start(answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let answer: Arc<Answers> = Arc::new(answer);
        let serving = tokio::spawn(serve(listener, answer, calls.clone()));
        Ok(Self { at, calls, serving })
    }

    /// Everything that arrived so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often this was asked for under this key.
    #[must_use]
    pub fn count(&self, what: &str, key: &str) -> usize {
        self.calls().iter().filter(|call| call.what == what && call.key == key).count()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, answer: Arc<Answers>, calls: Arc<Mutex<Vec<Call>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (answer, calls) = (answer.clone(), calls.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| respond(request, answer.clone(), calls.clone()));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Body = BoxBody<Bytes, Infallible>;

async fn respond(
    request: Request<Incoming>,
    answer: Arc<Answers>,
    calls: Arc<Mutex<Vec<Call>>>,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let key = head.headers.get("idempotency-key").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let call = Call {
        what: format!("{} {}", head.method, head.uri.path()),
        key: percent_decode_str(key).decode_utf8_lossy().into_owned(),
        headers: head.headers.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
    let mut reply = answer(&call);
    while let Reply::Later(future) = reply {
        reply = future.await;
    }
    let mut response = Response::builder();
    response = match &reply {
        Reply::Json(status, _) => response.status(*status).header(header::CONTENT_TYPE, "application/json"),
        Reply::Redirect(to) => response.status(307).header(header::LOCATION, to),
        Reply::Endless(..) | Reply::Silence | Reply::Later(_) => response.status(200),
    };
    let body = match reply {
        Reply::Json(_, value) => Full::new(Bytes::from(value.to_string())).boxed(),
        Reply::Redirect(_) | Reply::Later(_) => Full::new(Bytes::new()).boxed(),
        Reply::Endless(bytes, every) => endless(bytes, every),
        Reply::Silence => std::future::pending().await,
    };
    response.body(body).map_err(std::io::Error::other)
}

fn endless(bytes: usize, every: Duration) -> Body {
    let frame = Bytes::from(vec![b' '; bytes]);
    let frames = futures_util::stream::unfold(frame, move |frame| async move {
        tokio::time::sleep(every).await;
        Some((Ok::<_, Infallible>(Frame::data(frame.clone())), frame))
    });
    StreamBody::new(Box::pin(frames)).boxed()
}
