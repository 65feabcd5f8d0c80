//! Which answer each behaviour of a server is, and that it never leads to a second request.

use amends_core::request::{Payload, Request};
use amends_participants::ParticipantConfig;
use serde_json::json;
use tokio::net::TcpListener;

use crate::calls::{answer, at, payment, query, request, text};
use crate::server::{Server, ok};

/// Calls a server that sends these bytes after the request and closes; says what the answer is. One request, in any case.
async fn answer_to(bytes: impl Into<Vec<u8>>) -> String {
    let bytes = bytes.into();
    let server = Server::start(move |mut talk| {
        let bytes = bytes.clone();
        async move {
            talk.request().await;
            talk.say(&bytes).await;
        }
    })
    .await;
    let answer = answer(&at(server.url()), request()).await;
    assert_eq!((server.connections(), server.requests()), (1, 1));
    text(&answer)
}

/// The same for a server that keeps the connection open and silent afterwards, and a call that does not wait long.
async fn answer_to_then_silence(bytes: impl Into<Vec<u8>>) -> String {
    let bytes = bytes.into();
    let server = Server::start(move |mut talk| {
        let bytes = bytes.clone();
        async move {
            talk.request().await;
            talk.say(&bytes).await;
            talk.closed().await;
        }
    })
    .await;
    let answer = answer(&at(server.url()), Request { timeout_ms: 300, ..request() }).await;
    assert_eq!(server.connections(), 1);
    text(&answer)
}

#[tokio::test]
async fn whole_answers_are_passed_on_as_they_are() {
    for (bytes, expected) in [
        (ok(r#"{"charge_id":"c-1"}"#), r#"200 {"charge_id":"c-1"}"#),
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".into(), "202 "),
        ("HTTP/1.1 204 No Content\r\n\r\n".into(), "204 "),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone".into(), "404 none"),
        ("HTTP/1.1 500 \r\ncontent-length: 0\r\n\r\n".into(), "500 "),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end".into(), "200 until the end"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nx-late: 1\r\n\r\n".into(), "200 abcde"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx".into(), "200 x"),
    ] {
        assert_eq!(answer_to(bytes.clone()).await, expected, "{bytes}");
    }
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms() {
    for (value, expected) in
        [("7", "503 after 7000 "), ("Tue, 14 Nov 2023 22:13:30 GMT", "503 after 9877 "), ("soon", "503 ")]
    {
        let bytes =
            format!("HTTP/1.1 503 Service Unavailable\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(answer_to(bytes).await, expected);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Server::answering(ok("{}")).await;
    for status in [301, 302, 303, 307, 308] {
        let bytes = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: {}/charges\r\ncontent-length: 0\r\n\r\n",
            elsewhere.url()
        );
        assert_eq!(answer_to(bytes).await, format!("{status} "));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn whatever_is_cut_short_is_lost() {
    for bytes in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"charge_id\"",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let answer = answer_to(bytes).await;
        assert!(answer.starts_with("lost: "), "{bytes:?}: {answer}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_lost() {
    for bytes in [
        "garbage\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let answer = answer_to(bytes).await;
        assert!(answer.starts_with("lost: "), "{bytes:?}: {answer}");
    }
}

#[tokio::test]
async fn huge_headers_are_lost() {
    let one = format!("HTTP/1.1 200 OK\r\nx-fill: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(200_000));
    assert!(answer_to(one).await.starts_with("lost: "));
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x-fill: a\r\n".repeat(1_000));
    assert!(answer_to(many).await.starts_with("lost: "));
}

#[tokio::test]
async fn a_reset_after_the_request_is_lost() {
    let server = Server::start(|mut talk| async move {
        talk.request().await;
        talk.reset();
    })
    .await;
    let answer = text(&answer(&at(server.url()), request()).await);
    assert!(answer.starts_with("lost: "), "{answer}");
    assert_eq!((server.connections(), server.requests()), (1, 1));
}

#[tokio::test]
async fn silence_is_lost_when_the_time_is_over() {
    for bytes in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        assert_eq!(
            answer_to_then_silence(bytes).await,
            "lost: no complete answer within 300 ms",
            "{bytes:?}"
        );
    }
}

#[tokio::test]
async fn a_body_that_trickles_is_lost_when_the_time_is_over() {
    let server = Server::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        loop {
            talk.say("x").await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let answer = answer(&at(server.url()), Request { timeout_ms: 300, ..request() }).await;
    assert_eq!(text(&answer), "lost: no complete answer within 300 ms");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn oversized_bodies_are_lost_and_not_read_to_their_end() {
    let server = Server::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        loop {
            talk.say(&chunk).await;
            tokio::task::yield_now().await;
        }
    })
    .await;
    let limited = || ParticipantConfig { answer_bytes_max: 100_000, ..ParticipantConfig::new(server.url()) };
    let expected = "lost: the answer's body has more than answer_bytes_max (100000) bytes";
    assert_eq!(text(&answer(&payment(limited()), request()).await), expected);
    assert_eq!((server.connections(), server.requests()), (1, 1));

    let announced = Server::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 100001\r\n\r\n").await;
        talk.closed().await;
    })
    .await;
    let config = ParticipantConfig { url: ParticipantConfig::new(announced.url()).url, ..limited() };
    assert_eq!(text(&answer(&payment(config), request()).await), expected);
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    for (len, kind) in [(1_000, "200 "), (1_001, "lost: ")] {
        for framing in [format!("content-length: {len}\r\n\r\n"), "connection: close\r\n\r\n".to_owned()] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{framing}{}", "x".repeat(len));
            let server = Server::start(move |mut talk| {
                let bytes = bytes.clone();
                async move {
                    talk.request().await;
                    talk.say(bytes).await;
                }
            })
            .await;
            let config =
                ParticipantConfig { answer_bytes_max: 1_000, ..ParticipantConfig::new(server.url()) };
            let answer = text(&answer(&payment(config), request()).await);
            assert!(answer.starts_with(kind), "{len} {framing:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_refused_connection_is_not_sent() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    };
    let answer = text(&answer(&at(format!("http://{address}")), request()).await);
    assert!(answer.starts_with(&format!("not sent: could not connect to http://{address}: ")), "{answer}");
    assert!(answer.contains("refused"), "{answer}");
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_not_sent() {
    let answer = answer(&at("http://nobody.invalid"), Request { timeout_ms: 5_000, ..request() }).await;
    assert!(text(&answer).starts_with("not sent: "), "{answer:?}");
}

#[tokio::test]
async fn an_answer_before_the_whole_body_was_read_is_never_not_sent() {
    let server = Server::start(|mut talk| async move {
        let _ = tokio::io::AsyncReadExt::read_u8(&mut talk.stream).await;
        talk.say("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await;
        talk.closed().await;
    })
    .await;
    let participants = at(server.url());
    let big = Request { body: Some(Payload::Json(json!("x".repeat(8_000_000)))), ..request() };
    assert_eq!(text(&answer(&participants, big).await), "413 ");
    assert_eq!(
        participants.states()[0].idle_connections,
        0,
        "a half-written request leaves no usable connection"
    );
}

#[tokio::test]
async fn a_switch_of_protocols_is_no_answer_to_anything() {
    let answer =
        answer_to("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n").await;
    assert!(answer.starts_with("101 ") || answer.starts_with("lost: "), "{answer}");
}

#[tokio::test]
async fn a_participant_that_nobody_configured_is_a_configuration_fault() {
    let server = Server::answering(ok("{}")).await;
    let unnamed = answer(&at(server.url()), Request { to: "shipping".into(), ..query() }).await;
    assert_eq!(
        text(&unnamed),
        "misconfigured: participant `shipping` is not in amends.toml: add [participants.shipping] url = \"http://…\""
    );
    let local = answer(&at(server.url()), Request { to: "local-ship".into(), ..query() }).await;
    assert!(text(&local).contains("in the process of a Rust service"), "{local:?}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_request_that_cannot_be_written_is_a_configuration_fault() {
    let server = Server::answering(ok("{}")).await;
    for request in [
        Request { path: "/users/..".into(), ..request() },
        Request { path: "/a b".into(), ..request() },
        Request { headers: vec![("x-note".into(), "a\nb".into())], ..request() },
        Request { headers: vec![("content-length".into(), "1".into())], ..request() },
    ] {
        let answer = text(&answer(&at(server.url()), request).await);
        assert!(answer.starts_with("misconfigured: "), "{answer}");
    }
    assert_eq!(server.connections(), 0);
}
