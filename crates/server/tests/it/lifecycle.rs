use std::time::Duration;

use amends_server::{ConnectionLimits, ServerConfig, Settings, serve_router};
use axum::Router;
use axum::routing::get;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::client;
use crate::script::Reply;
use crate::world::{ORDER, Plan, World};

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        max_connections: 16,
        header_timeout: Duration::from_secs(60),
        stop_within: Duration::from_secs(60),
    }
}

#[tokio::test]
async fn who_waits_is_answered_when_the_server_stops() {
    let mut world = World::start().await;
    world.apply(ORDER).await.ok(201);
    world.script.answer("reserve:action", &[Reply::Hang]);
    let body = json!({ "saga": "order", "id": "a", "input": { "sku": "a", "amount": 1 } }).to_string();
    let address = world.address;
    let waiting =
        tokio::spawn(
            async move { client::send(address, "POST", "/v1/sagas?wait=60s", &[], body.into()).await },
        );
    world.until_known("a").await;
    let stopped = world.stop();
    let saga = waiting.await.unwrap().ok(201);
    assert_eq!(saga["status"], "running");
    stopped.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn idle_connections_do_not_hold_the_server_up() {
    let mut world = World::start().await;
    let mut idle = TcpStream::connect(world.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    world.stop().await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_that_do_not_end_are_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(std::future::pending::<()>));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let limits = ConnectionLimits { stop_within: Duration::from_millis(50), ..limits() };
    let server = tokio::spawn(serve_router(listener, router, limits, async {
        let _ = stopped.await;
    }));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // Until the request is under way the connection would end by itself.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stop);
    server.await.unwrap();
    let mut rest = Vec::new();
    // Closed or reset, but not kept.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_panic_is_a_problem_and_not_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    async fn broken() -> &'static str {
        panic!("on purpose")
    }
    let router = Router::new().route("/broken", get(broken)).route("/fine", get(|| async { "fine" }));
    tokio::spawn(serve_router(listener, router, limits(), std::future::pending()));
    let answer = client::send(address, "GET", "/broken", &[], "".into()).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.json()["type"], "about:blank");
    assert!(!answer.text().contains("on purpose"));
    assert_eq!(client::send(address, "GET", "/fine", &[], "".into()).await.text(), "fine");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let world = World::with(Plan { server: "max_connections = 1", ..Plan::default() }).await;
    let holder = TcpStream::connect(world.address).await.unwrap();
    let address = world.address;
    let second = tokio::spawn(async move { client::send(address, "GET", "/healthz", &[], "".into()).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!second.is_finished());
    drop(holder);
    second.await.unwrap().ok(200);
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let world = World::with(Plan { server: "header_timeout = \"50ms\"", ..Plan::default() }).await;
    let mut slow = TcpStream::connect(world.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").await.unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let world = World::with(Plan { server: "body_timeout = \"50ms\"", ..Plan::default() }).await;
    let mut slow = TcpStream::connect(world.address).await.unwrap();
    slow.write_all(b"POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest).await;
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 408"), "{rest}");
    assert!(rest.contains("application/problem+json") && rest.contains("urn:amends:problem:malformed"));
}

#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let settings = |text: &str| {
        let config: ServerConfig = toml::from_str(text).unwrap();
        Settings::new(&config, &|_| None).map(drop)
    };
    settings("").unwrap();
    assert!(settings("listen = \"0.0.0.0:7070\"").unwrap_err().contains("no tokens are configured"));
    assert!(settings("listen = \"7070\"").unwrap_err().contains("127.0.0.1:7070"));
    assert!(settings("public_url = \"amends\"").unwrap_err().contains("public_url"));
    assert!(settings("max_connections = 0").unwrap_err().contains("max_connections"));
    let token = "listen = \"0.0.0.0:1\"\ntokens = [{ name = \"a\", token = \"env:A\", role = \"admin\" }]";
    assert!(settings(token).unwrap_err().contains("variable A is not set"));
}
