use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{ORDER, World};

async fn world() -> World {
    let world = World::start().await;
    world.apply(ORDER).await.ok(201);
    world
}

/// Sends bytes as they are and reads all that comes back.
async fn raw(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    // The server may answer and close before all is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn unchanged(world: &World) {
    assert_eq!(world.get("/v1/sagas").await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn what_is_nowhere_and_what_cannot_be_done_there() {
    let world = world().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/sagas",
        "/v1/sagas/",
        "/v1/sagas/a/b/c",
        "/v1/sagas/a/explode",
        "//v1/sagas",
        "/v1/operations",
    ] {
        world.get(path).await.problem(404, "malformed");
    }
    for (method, path, allowed) in [
        ("DELETE", "/v1/sagas", "POST"),
        ("PUT", "/v1/sagas/a", "GET"),
        ("GET", "/v1/sagas/a/cancel", "POST"),
        ("OPTIONS", "/v1/sagas", "GET"),
        ("TRACE", "/v1/sagas", "GET"),
        ("BREW", "/v1/sagas", "GET"),
        ("POST", "/v1/definitions/x", "PUT"),
    ] {
        let answer = world.send(method, path, &[], "").await;
        answer.problem(405, "malformed");
        assert!(answer.header("allow").contains(allowed), "{method} {path}: {:?}", answer.headers);
    }
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_and_the_client_learns_it() {
    let world = world().await;
    let large = Bytes::from(vec![b' '; 10 * 1024 * 1024]);
    for (method, path, media) in [
        ("POST", "/v1/sagas", "application/json"),
        ("POST", "/v1/sagas/a/cancel", "application/json"),
        ("POST", "/v1/sagas/a/retry", "application/json"),
        ("POST", "/v1/callbacks", "application/json"),
        ("PUT", "/v1/definitions/a", "application/toml"),
    ] {
        world.send(method, path, &[("content-type", media)], large.clone()).await.problem(413, "too-large");
    }
    // One byte too many, and as many as there may be.
    let submission = r#"{"saga":"none","id":"a","input":1}"#;
    let fits = |bytes: usize| Bytes::from(submission.to_owned() + &" ".repeat(bytes - submission.len()));
    let post = |body| world.send("POST", "/v1/sagas", &[], body);
    post(fits(1024 * 1024 + 1)).await.problem(413, "too-large");
    post(fits(1024 * 1024)).await.problem(404, "unknown-definition");
}

#[tokio::test]
async fn a_body_of_unknown_length_is_bounded_too() {
    let world = world().await;
    let mut request = b"POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n".to_vec();
    for _ in 0..20 {
        request.extend_from_slice(b"20000\r\n");
        request.extend_from_slice(&vec![b' '; 0x20000]);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let answer = raw(&world, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too-large"), "{answer}");
}

#[tokio::test]
async fn who_asks_before_sending_too_much_is_told_before() {
    let world = world().await;
    let head = b"POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90000000\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n";
    let answer = raw(&world, head).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn json_that_is_not_what_it_should_be_is_refused() {
    let world = world().await;
    let body = |input: &str| format!(r#"{{"saga":"order","id":"a","input":{input}}}"#);
    let nested = |n: usize| body(&format!("{}{}", "[".repeat(n), "]".repeat(n)));
    let mut all: Vec<Vec<u8>> = [nested(65), nested(129), nested(100_000), body(&"[".repeat(200_000))]
        .into_iter()
        .chain([
            body(r#"{"a":1,"a":1}"#),
            body(r#"{"a":1,"\u0061":1}"#),
            body(r#"{"$serde_json::private::Number":"1"}"#),
            body(r#"{"$serde_json::private::RawValue":"1"}"#),
            body("01"),
            body("NaN"),
            body("1e"),
            body("'a'"),
            body("\"\\ud800\""),
            body("\"a\nb\""),
            body("{\"a\":1,}"),
            body("// comment\n1"),
            format!("\u{feff}{}", body("1")),
            body("1") + &body("1"),
        ])
        .map(String::into_bytes)
        .collect();
    all.push(
        br#"{"saga":"order","id":"a","input":"#.iter().copied().chain([b'"', 0xff, b'"', b'}']).collect(),
    );
    all.push(vec![0; 100]);
    all.push(vec![0xff; 100]);
    for bytes in all {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let problem = world.send("POST", "/v1/sagas", &[], bytes).await.problem(400, "malformed");
        assert!(problem["line"].is_u64(), "{shown}: {problem}");
    }
    unchanged(&world).await;
    // As deep as it may be.
    let deep = format!(r#"{{"sku":"a","amount":{}1{}}}"#, "[".repeat(63), "]".repeat(63));
    world.post_text("/v1/sagas", &body(&deep)).await.ok(201);
    assert!(world.get("/v1/sagas/a").await.text().contains(&"[".repeat(63)));
}

#[tokio::test]
async fn what_is_no_http_is_answered_or_cut_off() {
    let world = world().await;
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET /v1/sagas HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n".to_vec(),
        b"POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}"
            .to_vec(),
        b"POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n{}".to_vec(),
        [b"GET /".as_slice(), &vec![b'a'; 1024 * 1024], b" HTTP/1.1\r\n\r\n"].concat(),
    ] {
        let answer = raw(&world, &bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // No `Host` is no name that is ours.
    let answer = raw(&world, b"GET /v1/sagas HTTP/1.0\r\n\r\n").await;
    assert!(answer.contains("400") && answer.contains("problem+json"), "{answer}");
    world.get("/healthz").await.ok(200);
}

#[tokio::test]
async fn a_client_that_goes_away_is_not_waited_for() {
    let world = world().await;
    world.script.answer("reserve:action", &[crate::script::Reply::Hang]);
    let body = json!({ "saga": "order", "id": "a", "input": { "sku": "a", "amount": 1 } }).to_string();
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /v1/sagas?wait=60s HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    world.until_known("a").await;
    world.until_waiters(1).await;
    drop(stream);
    world.until_waiters(0).await;
    // What it asked for goes on.
    assert_eq!(world.saga("a").await["status"], "running");
}
