//! Calls a trivial service in the same process as fast as it can: `cargo run --release -p amends-participants --example
//! throughput [IN_FLIGHT] [SECONDS]`. Client and server share the cores, as they do in `amends bench`.

use std::collections::BTreeMap;
use std::convert::Infallible;
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
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let (in_flight, seconds) = (arguments.next().unwrap_or(64), arguments.next().unwrap_or(5));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let config = ParticipantConfig::new(format!("http://{}", listener.local_addr()?));
    tokio::spawn(serve(listener));

    let configs = BTreeMap::from([("payment".to_owned(), config)]);
    let participants =
        Arc::new(Participants::new(configs, Settings::system(None)).expect("a valid configuration"));
    let (calls, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let started = Instant::now();
    let callers: Vec<_> = (0..in_flight)
        .map(|caller| tokio::spawn(call(caller, participants.clone(), calls.clone(), stop.clone())))
        .collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("no panic");
    }
    let calls = calls.load(Ordering::Relaxed);
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    let per_second = calls as f64 / started.elapsed().as_secs_f64();
    #[allow(clippy::print_stdout, reason = "the result")]
    {
        println!("{in_flight} in flight: {per_second:.0} calls a second");
    }
    Ok(())
}

async fn call(caller: u64, participants: Arc<Participants>, calls: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    let mut n = 0_u64;
    while !stop.load(Ordering::Relaxed) {
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
        calls.fetch_add(1, Ordering::Relaxed);
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
