//! Clients that submit orders, each the next one as soon as the last is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::exit::Failure;

/// What an answer to an order that went through contains.
const COMPLETED: &[u8] = br#""status":"completed""#;
/// How much of an answer that is not as expected is shown.
const SHOWN_BYTES: usize = 400;

/// Where orders are submitted to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Host and port.
    pub(super) address: String,
    /// Path and query.
    pub(super) path: &'static str,
}

/// What a round of load gave.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Milliseconds of each order that went through, in ascending order.
    pub(super) latencies_ms: Vec<f64>,
    /// From the first submission to the last answer.
    pub(super) seconds: f64,
}

impl Round {
    pub(super) fn per_second(&self) -> f64 {
        self.latencies_ms.len() as f64 / self.seconds
    }

    /// The latency that this share of all orders did not exceed.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let last = self.latencies_ms.len().saturating_sub(1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and `last`")]
        let at = (last as f64 * share).round() as usize;
        self.latencies_ms.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Submits orders over `concurrency` connections for `time`. `numbers` makes ids that never come again.
pub(super) async fn run(
    target: &Target,
    concurrency: usize,
    time: Duration,
    numbers: &Arc<AtomicU64>,
) -> Result<Round, Failure> {
    let mut connections = Vec::with_capacity(concurrency);
    for _ in 0..concurrency {
        connections.push(connect(&target.address).await.map_err(|e| broken(target, &e))?);
    }
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for connection in connections {
        clients.spawn(client(connection, target.clone(), began + time, numbers.clone()));
    }
    let mut latencies_ms = Vec::new();
    while let Some(ended) = clients.join_next().await {
        let client = ended.map_err(|e| broken(target, &e.to_string()))?;
        latencies_ms.extend(client.map_err(|e| broken(target, &e))?);
    }
    let seconds = began.elapsed().as_secs_f64();
    latencies_ms.sort_by(f64::total_cmp);
    Ok(Round { latencies_ms, seconds })
}

type Connection = SendRequest<Full<Bytes>>;

async fn connect(address: &str) -> Result<Connection, String> {
    let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    tokio::spawn(async move {
        // A connection that breaks is noticed by the one who uses it.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn client(
    mut connection: Connection,
    target: Target,
    until: Instant,
    numbers: Arc<AtomicU64>,
) -> Result<Vec<f64>, String> {
    let mut latencies_ms = Vec::new();
    while Instant::now() < until {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let order = json!({
            "saga": "bench-order3",
            "id": format!("order:{}-{number}", std::process::id()),
            "input": { "sku": "teapot", "qty": 2, "amount": "19.90" },
        });
        let request = Request::post(target.path)
            .header("host", &target.address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(order.to_string())))
            .map_err(|e| e.to_string())?;
        let began = Instant::now();
        connection.ready().await.map_err(|e| e.to_string())?;
        let answer = connection.send_request(request).await.map_err(|e| e.to_string())?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
        if !status.is_success() || !body.windows(COMPLETED.len()).any(|window| window == COMPLETED) {
            let shown = &body[..body.len().min(SHOWN_BYTES)];
            return Err(format!("an order was answered with {status}: {}", String::from_utf8_lossy(shown)));
        }
        latencies_ms.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(latencies_ms)
}

fn broken(target: &Target, why: &str) -> Failure {
    Failure::failed(
        format!("the load on {}{} broke: {why}", target.address, target.path),
        "nothing else should use the machine meanwhile; with a high concurrency check `ulimit -n`",
    )
}
