//! Participants in the same process: they keep what they declare, and do what a test tells them to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use amends_core::request::Request;
use amends_core::{Answer, OpKind};
use amends_participants::{Called, Caller, HeldReason, Outgoing};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::sleep;

/// What a participant does with one call, instead of just carrying it out.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// Carries it out and answers.
    Works,
    /// Carries it out; the answer is lost.
    WorksSilently,
    /// The call never arrives.
    NeverGets,
    /// Refuses it.
    Refuses,
    /// Says that it is too busy.
    IsBusy,
    /// Has accepted it, and will report.
    Accepts,
    /// The breaker is open.
    HeldBack,
    /// Nobody said where it is.
    Misconfigured,
    /// Answers, after a while.
    WorksAfter(Duration),
    /// Brings down whoever calls it.
    Panics,
    /// Takes the lease check very seriously: after a while, before the first byte is written.
    ChecksLeaseAfter(Duration),
}

/// All participants, with one ledger.
#[derive(Debug, Default)]
pub(crate) struct Participants(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What was carried out, by key: how often it had an effect, and the serial it was given.
    ledger: BTreeMap<String, Effect>,
    /// What comes next, by (step, operation, query).
    script: BTreeMap<(String, OpKind, bool), VecDeque<Does>>,
    /// Each call, in the order of arrival.
    calls: Vec<String>,
    /// What was carried out, in that order.
    effects: Vec<String>,
    under_way: usize,
    under_way_max: usize,
}

#[derive(Debug, Clone)]
struct Effect {
    times: usize,
    serial: usize,
}

impl Participants {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().expect("no test panics while holding it"))
    }

    /// The next calls of `step`'s action do this, then it works again.
    pub(crate) fn next(&self, step: &str, does: impl IntoIterator<Item = Does>) {
        self.next_of(step, OpKind::Action, false, does);
    }

    pub(crate) fn next_of(
        &self,
        step: &str,
        kind: OpKind,
        is_query: bool,
        does: impl IntoIterator<Item = Does>,
    ) {
        self.with(|state| state.script.entry((step.to_owned(), kind, is_query)).or_default().extend(does));
    }

    /// Each call so far, as `step operation` or `step operation?`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.with(|state| state.calls.clone())
    }

    /// What was carried out so far, each time it was, in order.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.with(|state| state.effects.clone())
    }

    /// Keys that were carried out more than once.
    pub(crate) fn doubled(&self) -> Vec<String> {
        self.with(|state| {
            state.ledger.iter().filter(|(_, e)| e.times > 1).map(|(key, _)| key.clone()).collect()
        })
    }

    /// The most calls that were under way at once.
    pub(crate) fn under_way_max(&self) -> usize {
        self.with(|state| state.under_way_max)
    }
}

impl State {
    /// Carries it out once, whatever is declared: `effect` and `replay` differ only in what a repeat is answered.
    fn work(&mut self, request: &Request) -> Value {
        let serial = self.ledger.len() + 1;
        let name = name(request);
        let key = request.key.as_str().to_owned();
        let effect = self.ledger.entry(key).or_insert_with(|| {
            self.effects.push(name.clone());
            Effect { times: 1, serial }
        });
        json!({ "serial": effect.serial })
    }

    fn query(&self, request: &Request) -> Answer {
        match self.ledger.get(request.key.as_str()) {
            Some(effect) => answer(200, &json!({ "serial": effect.serial })),
            None => answer(404, &json!({ "outcome": "never_seen" })),
        }
    }
}

fn name(request: &Request) -> String {
    let query = if request.is_query { "?" } else { "" };
    format!("{} {}{query}", request.step, request.operation.as_str())
}

fn answer(status: u16, body: &Value) -> Answer {
    Answer::Response { status, retry_after_ms: None, body: body.to_string().into_bytes() }
}

fn answered(answer: Answer) -> Called {
    Called::Answered { answer, took_ms: 1 }
}

#[async_trait]
impl Caller for Participants {
    async fn call(&self, outgoing: Outgoing) -> Called {
        let request = &outgoing.request;
        let does = self.with(|state| {
            state.calls.push(name(request));
            state.under_way += 1;
            state.under_way_max = state.under_way_max.max(state.under_way);
            let key = (request.step.clone(), request.operation, request.is_query);
            state.script.get_mut(&key).and_then(VecDeque::pop_front).unwrap_or(Does::Works)
        });
        // A call takes its time: others run meanwhile.
        sleep(Duration::from_millis(1)).await;
        let called = self.carry_out(&outgoing, does).await;
        self.with(|state| state.under_way -= 1);
        called
    }
}

impl Participants {
    async fn carry_out(&self, outgoing: &Outgoing, does: Does) -> Called {
        let request = &outgoing.request;
        if !(outgoing.lease)() {
            return Called::LeaseLost;
        }
        let timeout = Duration::from_millis(request.timeout_ms);
        let work =
            || {
                self.with(|state| {
                    if request.is_query { state.query(request) } else { answer(200, &state.work(request)) }
                })
            };
        match does {
            Does::Works => answered(work()),
            Does::WorksAfter(pause) => {
                sleep(pause).await;
                answered(work())
            }
            Does::ChecksLeaseAfter(pause) => {
                sleep(pause).await;
                if (outgoing.lease)() { answered(work()) } else { Called::LeaseLost }
            }
            Does::WorksSilently => {
                work();
                sleep(timeout).await;
                Called::Answered {
                    answer: Answer::Lost("no answer within the time-out".into()),
                    took_ms: request.timeout_ms,
                }
            }
            Does::NeverGets => {
                sleep(timeout).await;
                Called::Answered {
                    answer: Answer::Lost("no answer within the time-out".into()),
                    took_ms: request.timeout_ms,
                }
            }
            Does::Panics => panic!("planted"),
            Does::Refuses => answered(answer(422, &json!({ "outcome": "rejected", "reason": "sold out" }))),
            Does::IsBusy => {
                answered(Answer::Response { status: 429, retry_after_ms: None, body: Vec::new() })
            }
            Does::Accepts => answered(answer(202, &json!({}))),
            Does::HeldBack => Called::Held { reason: HeldReason::BreakerOpen, retry_in_ms: 5_000 },
            Does::Misconfigured => answered(Answer::Misconfigured("amends.toml does not name it".into())),
        }
    }
}
