//! Calls a trivial service in the same process as fast as it can, in rounds that alternate with bare hyper over one connection
//! a caller and the same headers: `cargo run --release -p amends-participants --example throughput [IN_FLIGHT] [SECONDS]`.
//!
//! Client and server share the cores, as they do in `amends bench`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use amends_core::definition::Method;
use amends_core::request::{Payload, Request};
use amends_core::{Answer, Key, OpKind, SagaId};
use amends_participants::{Called, Caller as _, Outgoing, ParticipantConfig, Participants, Settings};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

const ROUNDS: usize = 3;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let (in_flight, seconds) = (arguments.next().unwrap_or(64), arguments.next().unwrap_or(3));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));
    let configs =
        BTreeMap::from([("payment".to_owned(), ParticipantConfig::new(format!("http://{address}")))]);
    let participants =
        Arc::new(Participants::new(configs, Settings::system(None)).expect("a valid configuration"));
    for _ in 0..ROUNDS {
        let bare = round(in_flight, seconds, |_, meter| bare(address, meter)).await;
        let amends = round(in_flight, seconds, |n, meter| amends(n, participants.clone(), meter)).await;
        #[allow(clippy::print_stdout, reason = "the result")]
        {
            println!("{in_flight} in flight: bare hyper {bare}, amends {amends}");
        }
    }
    Ok(())
}

#[derive(Default)]
struct Meter {
    calls: AtomicU64,
    stop: AtomicBool,
}

/// Runs so many callers at once; says how many calls they made a second, and what one cost both sides.
async fn round<F, Fut>(callers: u64, seconds: u64, caller: F) -> String
where
    F: Fn(u64, Arc<Meter>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (meter, started, cpu_before) = (Arc::new(Meter::default()), Instant::now(), cpu_us());
    let callers: Vec<_> = (0..callers).map(|n| tokio::spawn(caller(n, meter.clone()))).collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    meter.stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("no panic");
    }
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    let calls = meter.calls.load(Ordering::Relaxed) as f64;
    let (per_second, cpu) = (calls / started.elapsed().as_secs_f64(), (cpu_us() - cpu_before) / calls);
    format!("{per_second:.0}/s, {cpu:.1} us CPU a call")
}

/// Processor time that this process has used, in microseconds: unlike calls a second it hardly depends on what else runs.
fn cpu_us() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).expect("not negative").as_secs_f64() * 1e6
}

async fn amends(caller: u64, participants: Arc<Participants>, meter: Arc<Meter>) {
    let mut n = 0_u64;
    while !meter.stop.load(Ordering::Relaxed) {
        n += 1;
        let saga = SagaId::new(format!("order:{caller}-{n}")).expect("an id");
        let request = Request {
            to: "payment".into(),
            method: Method::Post,
            path: "/charges".into(),
            headers: vec![],
            body: Some(Payload::Json(json!({"amount": 7, "currency": "EUR"}))),
            timeout_ms: 3_000,
            key: Key::new(&saga, "charge", OpKind::Action, 1),
            action_key: None,
            step: "charge".into(),
            operation: OpKind::Action,
            attempt: 1,
            is_query: false,
        };
        let outgoing = Outgoing { request, saga, epoch: 1, trace: None, lease: Arc::new(|| true) };
        let called = participants.call(outgoing).await;
        assert!(
            matches!(called, Called::Answered { answer: Answer::Response { status: 200, .. }, .. }),
            "{called:?}"
        );
        meter.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// As many and as long as those of a call, since reading them costs the service too.
const HEADERS: [(&str, &str); 13] = [
    ("host", "127.0.0.1:9001"),
    ("user-agent", "amends/0.1.0"),
    ("accept", "application/json"),
    ("idempotency-key", "order:17-4711:charge:action"),
    ("content-type", "application/json"),
    ("amends-saga", "order:17-4711"),
    ("amends-step", "charge"),
    ("amends-operation", "action"),
    ("amends-attempt", "1"),
    ("amends-epoch", "1"),
    ("amends-expires", "2023-11-14T22:13:50.123Z"),
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("x-fill", "content-length comes by itself"),
];

async fn bare(address: SocketAddr, meter: Arc<Meter>) {
    let stream = TcpStream::connect(address).await.expect("connected");
    stream.set_nodelay(true).expect("a socket");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let body = serde_json::to_vec(&json!({"amount": 7, "currency": "EUR"})).expect("JSON");
    while !meter.stop.load(Ordering::Relaxed) {
        let mut request = hyper::Request::post("/charges");
        for (name, value) in HEADERS {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.clone()))).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        assert!(!body.is_empty());
        sender.ready().await.expect("a connection");
        meter.calls.fetch_add(1, Ordering::Relaxed);
    }
}

async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.expect("accepts");
        stream.set_nodelay(true).expect("a socket");
        let service = service_fn(|request: hyper::Request<Incoming>| async move {
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from_static(
                b"{\"charge_id\":\"c-1\"}",
            ))))
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}
