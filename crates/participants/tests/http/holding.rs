//! Calls are held back by an open breaker and by a full limit, and use no attempt for it (rule 10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amends_participants::{BreakerState, Called, Caller as _, HeldReason, ParticipantConfig, Participants};
use tokio::sync::Notify;

use crate::calls::{answer, at, outgoing, pass, payment, query, request, text};
use crate::server::{Server, ok};

/// A server that answers 500 until it is told to be well.
async fn unwell() -> (Server, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(false));
    let server = Server::start({
        let well = well.clone();
        move |mut talk| {
            let well = well.clone();
            async move {
                while talk.request().await.is_some() {
                    let status = if well.load(Ordering::SeqCst) { "200 OK" } else { "500 No" };
                    talk.say(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
                }
            }
        }
    })
    .await;
    (server, well)
}

fn state(participants: &Participants) -> BreakerState {
    participants.states()[0].breaker
}

async fn held(participants: &Participants) -> Option<(HeldReason, u64)> {
    match participants.call(outgoing(request())).await {
        Called::Held { reason, retry_in_ms } => Some((reason, retry_in_ms)),
        Called::Answered { .. } | Called::LeaseLost => None,
    }
}

async fn open(participants: &Participants) {
    for _ in 0..5 {
        assert_eq!(state(participants), BreakerState::Closed);
        answer(participants, request()).await;
    }
    assert_eq!(state(participants), BreakerState::Open);
}

#[tokio::test]
async fn after_five_failures_calls_are_held_until_a_probe_is_answered() {
    let (server, well) = unwell().await;
    let participants = at(server.url());
    open(&participants).await;
    let (reason, retry_in_ms) = held(&participants).await.expect("held");
    assert_eq!(reason, HeldReason::BreakerOpen);
    assert!((1..=5_000).contains(&retry_in_ms), "{retry_in_ms}");
    assert_eq!(server.requests(), 5);

    pass(6).await;
    assert_eq!(text(&answer(&participants, query()).await), "500 ");
    let (_, retry_in_ms) = held(&participants).await.expect("held by the failed probe");
    assert!((5_001..=10_000).contains(&retry_in_ms), "{retry_in_ms}");
    assert_eq!(server.requests(), 6);

    pass(11).await;
    well.store(true, Ordering::SeqCst);
    assert_eq!(text(&answer(&participants, query()).await), "200 ");
    assert_eq!(state(&participants), BreakerState::Closed);
    assert_eq!(text(&answer(&participants, request()).await), "200 ");
}

#[tokio::test]
async fn refused_connections_and_lost_answers_are_failures_too() {
    let participants = at("http://127.0.0.1:1");
    open(&participants).await;

    let server = Server::start(|mut talk| async move {
        talk.request().await;
    })
    .await;
    open(&at(server.url())).await;
    assert_eq!(server.requests(), 5);
}

#[tokio::test]
async fn refusals_and_configuration_faults_are_no_failures() {
    for status in [302, 400, 401, 404, 409, 422, 429] {
        let bytes = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
        let server = Server::answering(bytes).await;
        let participants = at(server.url());
        for _ in 0..10 {
            assert_eq!(text(&answer(&participants, request()).await), format!("{status} "));
        }
        assert_eq!(state(&participants), BreakerState::Closed);
        assert_eq!(server.requests(), 10);
    }
}

#[tokio::test]
async fn one_call_probes_and_the_others_wait_for_it() {
    let (go, arrived) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let failing = Arc::new(AtomicBool::new(true));
    let server = Server::start({
        let (go, arrived, failing) = (go.clone(), arrived.clone(), failing.clone());
        move |mut talk| {
            let (go, arrived, failing) = (go.clone(), arrived.clone(), failing.clone());
            async move {
                while talk.request().await.is_some() {
                    if failing.load(Ordering::SeqCst) {
                        return;
                    }
                    arrived.notify_one();
                    go.notified().await;
                    talk.say(ok("{}")).await;
                }
            }
        }
    })
    .await;
    let participants = Arc::new(at(server.url()));
    open(&participants).await;
    failing.store(false, Ordering::SeqCst);
    let probe = |participants: &Arc<Participants>| {
        let participants = participants.clone();
        tokio::spawn(async move { text(&answer(&participants, query()).await) })
    };

    pass(6).await;
    let given_up = probe(&participants);
    arrived.notified().await;
    assert_eq!(state(&participants), BreakerState::Probing);
    assert_eq!(held(&participants).await.expect("held").0, HeldReason::BreakerOpen);
    given_up.abort();
    assert!(given_up.await.expect_err("aborted").is_cancelled());

    // A probe that was cut short told nothing: the next call is one, at once.
    let answered = probe(&participants);
    arrived.notified().await;
    assert_eq!(state(&participants), BreakerState::Probing);
    go.notify_waiters();
    assert_eq!(answered.await.expect("no panic"), "200 {}");
    assert_eq!(state(&participants), BreakerState::Closed);
}

#[tokio::test]
async fn a_full_limit_holds_calls_back_and_a_free_place_lets_them_go() {
    let (go, arrived) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = Server::start({
        let (go, arrived) = (go.clone(), arrived.clone());
        move |mut talk| {
            let (go, arrived) = (go.clone(), arrived.clone());
            async move {
                while talk.request().await.is_some() {
                    arrived.notify_one();
                    go.notified().await;
                    talk.say(ok("{}")).await;
                }
            }
        }
    })
    .await;
    let config = ParticipantConfig { max_concurrency: 1, ..ParticipantConfig::new(server.url()) };
    let participants = Arc::new(payment(config));
    let call = || {
        let participants = participants.clone();
        tokio::spawn(async move { text(&answer(&participants, request()).await) })
    };
    let first = call();
    arrived.notified().await;
    assert_eq!(held(&participants).await, Some((HeldReason::LimitFull, 1_000)));
    let state = &participants.states()[0];
    assert_eq!((state.in_flight, state.max_concurrency, state.waiting), (1, 1, 0));
    assert_eq!(server.requests(), 1);

    let second = call();
    while participants.states()[0].waiting == 0 {
        tokio::task::yield_now().await;
    }
    go.notify_one();
    assert_eq!(first.await.expect("no panic"), "200 {}");
    arrived.notified().await;
    go.notify_one();
    assert_eq!(second.await.expect("no panic"), "200 {}");
    assert_eq!((server.connections(), server.requests()), (1, 2));
    assert_eq!(participants.states()[0].in_flight, 0);
}
