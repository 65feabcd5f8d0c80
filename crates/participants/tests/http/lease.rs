//! The lease is asked right before each socket write (rule 1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use amends_core::Answer;
use amends_core::request::{Payload, Request};
use amends_participants::{BreakerState, Called, Caller as _, LeaseCheck};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Notify;

use crate::calls::{answer, at, leased, request, settle, text};
use crate::server::{Server, ok};

/// A lease that holds for so many questions.
fn holds_for(times: usize) -> (LeaseCheck, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let check = {
        let asked = asked.clone();
        Arc::new(move || asked.fetch_add(1, Ordering::SeqCst) < times)
    };
    (check, asked)
}

#[tokio::test]
async fn without_a_lease_nothing_is_sent() {
    let server = Server::answering(ok("{}")).await;
    let participants = at(server.url());
    let (lease, _) = holds_for(0);
    assert_eq!(participants.call(leased(request(), lease)).await, Called::LeaseLost);
    assert_eq!(server.requests(), 0);

    // Neither over a connection that is there already.
    assert_eq!(text(&answer(&participants, request()).await), "200 {}");
    assert_eq!(participants.states()[0].idle_connections, 1);
    let (lease, _) = holds_for(0);
    assert_eq!(participants.call(leased(request(), lease)).await, Called::LeaseLost);
    settle().await;
    assert_eq!((server.connections(), server.requests()), (2, 1), "no new connection for it");
    assert_eq!(participants.states()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn the_lease_is_asked_when_the_connection_is_ready_not_before() {
    let (lease, asked) = holds_for(1);
    let nobody = at("http://127.0.0.1:1");
    let Called::Answered { answer: Answer::NotSent(_), .. } = nobody.call(leased(request(), lease)).await
    else {
        panic!("sent to nobody")
    };
    assert_eq!(asked.load(Ordering::SeqCst), 0);

    let server = Server::answering(ok("{}")).await;
    let (lease, asked) = holds_for(usize::MAX);
    let called = at(server.url()).call(leased(request(), lease)).await;
    assert!(
        matches!(called, Called::Answered { answer: Answer::Response { status: 200, .. }, .. }),
        "{called:?}"
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1, "a small request is one write");
}

#[tokio::test]
async fn a_lease_that_lapses_between_two_writes_stops_the_second() {
    let read = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(Notify::new());
    let server = Server::start({
        let (read, done) = (read.clone(), done.clone());
        move |mut talk| {
            let (read, done) = (read.clone(), done.clone());
            async move {
                let mut buffer = vec![0; 65_536];
                while let Ok(n @ 1..) = talk.stream.read(&mut buffer).await {
                    read.fetch_add(n, Ordering::SeqCst);
                }
                done.notify_one();
            }
        }
    })
    .await;
    let participants = at(server.url());
    // More than any socket buffer takes at once.
    let big = Request { body: Some(Payload::Json(json!("x".repeat(32_000_000)))), ..request() };
    for n in 1..=5 {
        let (lease, asked) = holds_for(1);
        let called = participants.call(leased(big.clone(), lease)).await;
        let Called::Answered { answer: Answer::Lost(reason), .. } = called else { panic!("{called:?}") };
        assert!(reason.contains("lease has lapsed"), "{reason}");
        done.notified().await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert!((1..n * 32_000_000).contains(&read.load(Ordering::SeqCst)), "a part arrived");
    }
    assert_eq!(participants.states()[0].breaker, BreakerState::Closed, "it is not the participant's failure");
}

#[tokio::test]
async fn lapsed_leases_are_no_failures_of_the_participant() {
    let server = Server::answering(ok("{}")).await;
    let participants = at(server.url());
    for _ in 0..10 {
        let (lease, _) = holds_for(0);
        assert_eq!(participants.call(leased(request(), lease)).await, Called::LeaseLost);
    }
    assert_eq!(text(&answer(&participants, request()).await), "200 {}");
}
