//! A participant in this process: the same door, time-out and lease as over HTTP, and no wire.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{Answer, Time};
use async_trait::async_trait;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::breaker::Ending;
use crate::door::Door;
use crate::participants::ending;
use crate::port::{Called, Clock, Outgoing};

/// What the names of participants begin with whose handlers are in a service's own process: a process without them knows what is missing.
pub const LOCAL_PREFIX: &str = "local-";

/// The most bytes of a panic's message that are told: it becomes a reason, which is kept.
const PANIC_CHARS_MAX: usize = 200;

/// What carries out calls in this process.
#[async_trait]
pub trait Local: Send + Sync {
    /// Carries out one request, and answers in the terms of HTTP: the core's tables read what it means.
    ///
    /// It runs in a task of its own, which is dropped when the request's time-out is over or the node stops: then, and if it panics, the
    /// call counts as lost, whatever it did. `expires`: when the time-out is over, on the node's clock.
    async fn handle(&self, outgoing: &Outgoing, expires: Time) -> Answer;
}

/// A participant in this process, with its limit and its breaker. Cheap to clone; clones share both.
#[derive(Clone)]
pub struct LocalParticipant {
    door: Arc<Door>,
    local: Arc<dyn Local>,
    clock: Clock,
}

impl LocalParticipant {
    /// Makes one ready. `name` is for logs; `max_concurrency` calls may be in flight at once.
    #[must_use]
    pub fn new(name: &str, max_concurrency: usize, local: Arc<dyn Local>, clock: Clock) -> Self {
        Self { door: Door::new(name, max_concurrency), local, clock }
    }

    /// Carries out one call, as [`crate::Caller::call`] promises. Dropping the future drops the handler where it waits.
    pub async fn call(&self, outgoing: Outgoing) -> Called {
        let permit = match self.door.acquire().await {
            Ok(permit) => permit,
            Err(held) => return held,
        };
        // After the wait for a place, right before the handler's first step.
        if !(outgoing.lease)() {
            permit.end(Ending::Silent);
            return Called::LeaseLost;
        }
        let started = Instant::now();
        let timeout_ms = outgoing.request.timeout_ms;
        let expires = (self.clock)().plus_ms(timeout_ms);
        // A task of its own: its panic is caught, it cannot hold up its saga, and it is aborted when the set is dropped.
        let mut task = JoinSet::new();
        let local = self.local.clone();
        task.spawn(async move { local.handle(&outgoing, expires).await });
        let answer = match tokio::time::timeout(Duration::from_millis(timeout_ms), task.join_next()).await {
            Ok(Some(Ok(answer))) => answer,
            Ok(Some(Err(error))) => Answer::Lost(broken(error)),
            Ok(None) => Answer::Lost("the handler was dropped".to_owned()),
            Err(_) => Answer::Lost(format!("no answer within {timeout_ms} ms")),
        };
        permit.end(ending(&answer));
        Called::Answered { answer, took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX) }
    }
}

/// Why a task gave no answer.
fn broken(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "the handler was dropped".to_owned() };
    let words = payload.downcast_ref::<&str>().copied();
    let words = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words: String = words.unwrap_or("without a message").chars().take(PANIC_CHARS_MAX).collect();
    format!("the handler panicked: {words}")
}

impl std::fmt::Debug for LocalParticipant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalParticipant").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use amends_core::definition::Method;
    use amends_core::request::Request;
    use amends_core::{Key, OpKind, SagaId};

    use super::*;
    use crate::HeldReason;

    /// Does what the test says, and counts how often it was begun and dropped.
    #[derive(Default)]
    struct Scripted {
        what: &'static str,
        begun: AtomicUsize,
        dropped: Arc<AtomicBool>,
    }

    struct TellsDrop(Arc<AtomicBool>);

    impl Drop for TellsDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[async_trait]
    impl Local for Scripted {
        async fn handle(&self, _: &Outgoing, expires: Time) -> Answer {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let _tells = TellsDrop(self.dropped.clone());
            match self.what {
                "panic" => panic!("out of paper"),
                "hang" => std::future::pending().await,
                _ => Answer::Lost(expires.0.to_string()),
            }
        }
    }

    fn outgoing(lease_holds: bool) -> Outgoing {
        let saga = SagaId::new("order:1").unwrap();
        let request = Request {
            to: "local-reserve".into(),
            method: Method::Post,
            path: "/order/1/reserve".into(),
            headers: Vec::new(),
            body: None,
            timeout_ms: 50,
            key: Key::new(&saga, "reserve", OpKind::Action, 1),
            action_key: None,
            step: "reserve".into(),
            operation: OpKind::Action,
            attempt: 1,
            is_query: false,
        };
        Outgoing { request, saga, epoch: 1, trace: None, lease: Arc::new(move || lease_holds) }
    }

    fn participant(what: &'static str) -> (Arc<Scripted>, LocalParticipant) {
        let scripted = Arc::new(Scripted { what, ..Scripted::default() });
        let made = LocalParticipant::new("reserve", 1, scripted.clone(), Arc::new(|| Time(1_000)));
        (scripted, made)
    }

    fn lost(called: Called) -> String {
        match called {
            Called::Answered { answer: Answer::Lost(reason), .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_handler_is_told_when_its_time_is_over() {
        assert_eq!(lost(participant("answer").1.call(outgoing(true)).await), "1050");
    }

    #[tokio::test]
    async fn a_panic_is_an_unknown_outcome() {
        let (_, made) = participant("panic");
        assert_eq!(lost(made.call(outgoing(true)).await), "the handler panicked: out of paper");
    }

    #[tokio::test(start_paused = true)]
    async fn what_overruns_its_time_is_dropped_and_unknown() {
        let (scripted, made) = participant("hang");
        assert_eq!(lost(made.call(outgoing(true)).await), "no answer within 50 ms");
        while !scripted.dropped.load(Ordering::Acquire) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn nothing_is_begun_once_the_lease_has_lapsed() {
        let (scripted, made) = participant("answer");
        assert_eq!(made.call(outgoing(false)).await, Called::LeaseLost);
        assert_eq!(scripted.begun.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_limit_are_held_and_a_dropped_call_frees_its_place() {
        let (scripted, made) = participant("hang");
        let first = made.clone();
        let mut flying = tokio::spawn(async move {
            let mut long = outgoing(true);
            long.request.timeout_ms = 3_600_000;
            first.call(long).await
        });
        while scripted.begun.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let held = made.call(outgoing(true)).await;
        assert!(matches!(held, Called::Held { reason: HeldReason::LimitFull, .. }), "{held:?}");
        flying.abort();
        assert!((&mut flying).await.unwrap_err().is_cancelled());
        assert_eq!(lost(made.call(outgoing(true)).await), "no answer within 50 ms");
    }
}
