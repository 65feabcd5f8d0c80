//! Connections are kept and used again, and what becomes of that never makes a request come twice.

use std::sync::Arc;
use std::time::Duration;

use amends_participants::ParticipantConfig;
use tokio::sync::Notify;

use crate::calls::{answer, at, pass, payment, query, request, settle, text};
use crate::server::{Server, ok};

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Server::answering(ok("{}")).await;
    let participants = at(server.url());
    for _ in 0..10 {
        assert_eq!(text(&answer(&participants, request()).await), "200 {}");
    }
    assert_eq!((server.connections(), server.requests()), (1, 10));
    assert_eq!(participants.states()[0].idle_connections, 1);
}

#[tokio::test]
async fn calls_at_once_have_a_connection_each_and_share_them_later() {
    let server = Server::answering(ok("{}")).await;
    let participants = Arc::new(at(server.url()));
    for _ in 0..2 {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let participants = participants.clone();
                tokio::spawn(async move { text(&answer(&participants, request()).await) })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.expect("no panic"), "200 {}");
        }
    }
    assert_eq!(server.requests(), 16);
    assert!(server.connections() <= 8, "{}", server.connections());
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced_without_a_trace() {
    for by_force in [false, true] {
        let (close, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let server = Server::start({
            let (close, closed) = (close.clone(), closed.clone());
            move |mut talk| {
                let (close, closed) = (close.clone(), closed.clone());
                async move {
                    talk.request().await;
                    talk.say(ok("{}")).await;
                    close.notified().await;
                    if by_force {
                        talk.reset();
                    } else {
                        drop(talk);
                    }
                    closed.notify_one();
                }
            }
        })
        .await;
        let participants = at(server.url());
        for n in 1..=3 {
            assert_eq!(text(&answer(&participants, request()).await), "200 {}", "by force: {by_force}");
            assert_eq!((server.connections(), server.requests()), (n, n));
            close.notify_one();
            closed.notified().await;
            settle().await;
            assert_eq!(participants.states()[0].idle_connections, 1, "nobody has looked yet");
        }
    }
}

#[tokio::test]
async fn a_used_connection_that_breaks_after_the_request_is_lost_not_retried() {
    let server = Server::start(|mut talk| async move {
        talk.request().await;
        talk.say(ok("{}")).await;
        talk.request().await;
        talk.reset();
    })
    .await;
    let participants = at(server.url());
    assert_eq!(text(&answer(&participants, request()).await), "200 {}");
    let second = text(&answer(&participants, request()).await);
    assert!(second.starts_with("lost: "), "{second}");
    assert_eq!((server.connections(), server.requests()), (1, 2));
}

#[tokio::test]
async fn connections_that_should_not_or_cannot_be_kept_are_not() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged",
    ] {
        let server = Server::answering(bytes).await;
        let participants = at(server.url());
        for n in 1..=3 {
            assert_eq!(text(&answer(&participants, request()).await), "200 {}", "{bytes:?}");
            settle().await;
            assert_eq!((server.connections(), server.requests()), (n, n), "{bytes:?}");
        }
    }
}

#[tokio::test]
async fn without_keep_alive_every_call_has_its_own_connection() {
    let server = Server::answering(ok("{}")).await;
    let participants =
        payment(ParticipantConfig { keep_alive: Duration::ZERO, ..ParticipantConfig::new(server.url()) });
    for _ in 0..3 {
        assert_eq!(text(&answer(&participants, query()).await), "200 {}");
        assert_eq!(participants.states()[0].idle_connections, 0);
    }
    assert_eq!((server.connections(), server.requests()), (3, 3));
}

#[tokio::test]
async fn idle_connections_are_closed_after_a_while() {
    let closed = Arc::new(Notify::new());
    let server = Server::start({
        let closed = closed.clone();
        move |mut talk| {
            let closed = closed.clone();
            async move {
                talk.request().await;
                talk.say(ok("{}")).await;
                talk.closed().await;
                closed.notify_one();
            }
        }
    })
    .await;
    let keep_alive = Duration::from_millis(30);
    let participants = payment(ParticipantConfig { keep_alive, ..ParticipantConfig::new(server.url()) });
    for n in 1..=2 {
        assert_eq!(text(&answer(&participants, request()).await), "200 {}");
        // Nobody calls, and yet it is closed.
        closed.notified().await;
        assert_eq!(server.connections(), n);
        assert_eq!(participants.states()[0].idle_connections, 0);
    }
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_not_used_though_nobody_has_closed_it_yet() {
    let server = Server::answering(ok("{}")).await;
    let keep_alive = Duration::from_secs(1_000);
    let participants = payment(ParticipantConfig { keep_alive, ..ParticipantConfig::new(server.url()) });
    for (wait_s, connections, idle) in [(0, 1, 1), (600, 1, 1), (700, 1, 1), (1_100, 2, 1)] {
        pass(wait_s).await;
        assert_eq!(text(&answer(&participants, request()).await), "200 {}");
        assert_eq!(server.connections(), connections, "after {wait_s} s");
        assert_eq!(participants.states()[0].idle_connections, idle);
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_closes_its_connection() {
    let closed = Arc::new(Notify::new());
    let arrived = Arc::new(Notify::new());
    let server = Server::start({
        let (closed, arrived) = (closed.clone(), arrived.clone());
        move |mut talk| {
            let (closed, arrived) = (closed.clone(), arrived.clone());
            async move {
                talk.request().await;
                arrived.notify_one();
                talk.closed().await;
                closed.notify_one();
            }
        }
    })
    .await;
    let participants = Arc::new(at(server.url()));
    let call = tokio::spawn({
        let participants = participants.clone();
        async move { answer(&participants, request()).await }
    });
    arrived.notified().await;
    assert_eq!(participants.states()[0].in_flight, 1);
    call.abort();
    closed.notified().await;
    let state = &participants.states()[0];
    assert_eq!((state.in_flight, state.idle_connections), (0, 0));
}
