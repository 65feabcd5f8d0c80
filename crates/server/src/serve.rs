//! Connections: HTTP/1.1 on TCP, bounded in number and in time, each answer a problem document at worst.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower_service::Service as _;

use crate::App;
use crate::counts::Refusals;
use crate::problem::{Kind, Problem};

/// How long to wait after the system refused a connection for want of resources: long enough for some to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of connections.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// How many are served at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request; also how long an idle connection is kept.
    pub header_timeout: Duration,
    /// How long requests under way may take to finish at the end.
    pub stop_within: Duration,
}

/// Serves the API until `stop` is ready; then no request is begun any more, whoever waits for a saga is answered at once, and what is
/// under way has `stop_within` to finish.
///
/// # Errors
/// If the listener's address may not be listened on: without tokens only loopback.
pub async fn serve(listener: TcpListener, app: App, stop: impl Future<Output = ()>) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    app.may_listen_on(address)
        .map_err(|why| std::io::Error::new(std::io::ErrorKind::PermissionDenied, why))?;
    let limits = app.limits().connections.clone();
    let refusals = Some(Arc::clone(app.refusals()));
    let stop = async {
        stop.await;
        app.begin_to_stop();
    };
    accept(listener, Served { router: app.router(), refusals }, limits, stop).await;
    Ok(())
}

/// Serves any router on the same stack as the API, until `stop` is ready: what the API is measured against.
pub async fn serve_router(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    accept(listener, Served { router, refusals: None }, limits, stop).await;
}

/// Where the server stands towards its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Requests under way finish; none is begun.
    Finishing,
    /// Time is over.
    Over,
}

#[derive(Clone)]
struct Served {
    router: Router,
    refusals: Option<Arc<Refusals>>,
}

async fn accept(
    listener: TcpListener,
    served: Served,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS)));
    let (stage, _) = watch::channel(Stage::Serving);
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let place =
                Arc::clone(&places).acquire_owned().await.expect("invariant: the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, served.clone(), limits.header_timeout, stage.subscribe());
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    stage.send_replace(Stage::Finishing);
    if tokio::time::timeout(limits.stop_within, stage.closed()).await.is_err() {
        stage.send_replace(Stage::Over);
        stage.closed().await;
    }
}

/// A connection that ended before it was accepted says nothing about the server.
fn is_the_clients(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(
    stream: TcpStream,
    served: Served,
    header_timeout: Duration,
    mut stage: watch::Receiver<Stage>,
) {
    // Answers are small and complete: waiting to fill packets would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay cannot be set");
    }
    let service = service_fn(|request| answer(&served, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            changed = stage.changed() => {
                let now = *stage.borrow_and_update();
                match now {
                    Stage::Serving if changed.is_ok() => {}
                    Stage::Finishing if changed.is_ok() => connection.as_mut().graceful_shutdown(),
                    // Nobody is left who could say that time is over: it is.
                    Stage::Serving | Stage::Finishing | Stage::Over => return,
                }
            }
        }
    }
}

async fn answer(served: &Served, request: http::Request<Incoming>) -> Result<Response, Infallible> {
    let routed = served.router.clone().call(request);
    // A router never fails; a handler that panics must not take the connection with it.
    let response = match AssertUnwindSafe(routed).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            tracing::error!("a handler panicked; its message is on standard error");
            Problem::new(Kind::Internal, "the server has met a fault of its own; it is in its log")
                .into_response()
        }
    };
    if let (Some(refusals), Some(kind)) = (&served.refusals, response.extensions().get::<Kind>()) {
        refusals.count(*kind);
    }
    Ok(response)
}
