//! The calls of one saga that are under way.

use std::sync::Arc;

use amends_core::answer::{read_answer, read_query};
use amends_core::{CallId, Input, OpKind, Outcome, ParkReason, QueryOutcome, Saga, for_call};
use amends_participants::{Called, HeldReason, Outgoing};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::definitions::Known;
use crate::lease::Lease;
use crate::meter::CallResult;
use crate::node::Node;

/// Calls under way. Dropped, they end where they stand, as in a crash.
#[derive(Default)]
pub(crate) struct Calls {
    running: Vec<CallId>,
    flights: FuturesUnordered<BoxFuture<'static, Ended>>,
}

/// A call that ended.
pub(crate) struct Ended {
    pub(crate) call: CallId,
    /// What it leads to; `None`: the lease was lost before anything was sent.
    pub(crate) input: Option<Input>,
}

/// What a call needs to know of its saga.
pub(crate) struct Caller<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) lease: &'a Arc<Lease>,
    pub(crate) known: &'a Arc<Known>,
    pub(crate) saga: &'a Saga,
}

impl Calls {
    pub(crate) fn any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Starts a call, unless it is under way.
    pub(crate) fn start(&mut self, caller: &Caller<'_>, call: CallId) {
        if !self.running.contains(&call) {
            self.running.push(call);
            self.flights.push(fly(caller, call));
        }
    }

    /// The next call that ends. Never returns while none is under way.
    pub(crate) async fn next(&mut self) -> Ended {
        match self.flights.next().await {
            Some(ended) => {
                self.running.retain(|call| *call != ended.call);
                ended
            }
            None => std::future::pending().await,
        }
    }
}

fn fly(caller: &Caller<'_>, call: CallId) -> BoxFuture<'static, Ended> {
    let request = match for_call(caller.saga, call) {
        Ok(request) => request,
        // The core looks before it allows a send, so this is a query that uses what an answer did not have.
        Err(missing) => {
            let input = Some(unsendable(call, missing.to_string()));
            return Box::pin(async move { Ended { call, input } });
        }
    };
    let (node, known) = (caller.node.clone(), caller.known.clone());
    let outgoing = Outgoing {
        request,
        saga: caller.saga.id.clone(),
        epoch: caller.lease.epoch(),
        trace: caller.saga.trace.as_deref().map(str::to_owned),
        lease: caller.lease.check(),
    };
    Box::pin(async move {
        let present = node.meter.calls_in_flight.enter();
        let called = node.caller.call(outgoing).await;
        drop(present);
        Ended { call, input: read(&known, call, called) }
    })
}

fn unsendable(call: CallId, reason: String) -> Input {
    if call.is_query {
        Input::Asked { op: call.op, n: call.n, outcome: QueryOutcome::NoAnswer { reason } }
    } else {
        Input::Answered {
            op: call.op,
            attempt: call.n,
            outcome: Outcome::Misconfigured { reason },
            took_ms: 0,
        }
    }
}

/// What became of a call, as the input it leads to: exactly one.
fn read(known: &Known, call: CallId, called: Called) -> Option<Input> {
    let operation = {
        let step = &known.definition.steps[call.op.step];
        match call.op.kind {
            OpKind::Action => step.action.as_ref(),
            OpKind::Compensation => step.compensation.as_ref(),
        }
    }
    .expect("invariant: the core asks only for operations that the definition has");
    let count = |result| known.meter.call(call.op.step, call.op.kind, call.is_query, result);
    match called {
        Called::LeaseLost => None,
        Called::Answered { answer, took_ms: _ } if call.is_query => {
            let query =
                operation.query.as_ref().expect("invariant: the core asks only where there is a query");
            let outcome = read_query(operation, query, &answer);
            count(query_result(&outcome));
            Some(Input::Asked { op: call.op, n: call.n, outcome })
        }
        Called::Answered { answer, took_ms } => {
            let outcome = read_answer(operation, &answer);
            count(call_result(&outcome));
            Some(Input::Answered { op: call.op, attempt: call.n, outcome, took_ms })
        }
        // A query that cannot be sent is one without an answer.
        Called::Held { reason, retry_in_ms: _ } if call.is_query => {
            count(CallResult::Held);
            Some(unsendable(call, held_words(reason).to_owned()))
        }
        Called::Held { reason, retry_in_ms } => {
            count(CallResult::Held);
            Some(Input::Held { op: call.op, attempt: call.n, reason: park_reason(reason), retry_in_ms })
        }
    }
}

fn park_reason(reason: HeldReason) -> ParkReason {
    match reason {
        HeldReason::BreakerOpen => ParkReason::BreakerOpen,
        HeldReason::LimitFull => ParkReason::LimitFull,
    }
}

fn held_words(reason: HeldReason) -> &'static str {
    match reason {
        HeldReason::BreakerOpen => "the participant failed repeatedly; its breaker is open",
        HeldReason::LimitFull => "the participant's concurrency limit is full",
    }
}

fn call_result(outcome: &Outcome) -> CallResult {
    match outcome {
        Outcome::Done { .. } => CallResult::Done,
        Outcome::Rejected { .. } => CallResult::Rejected,
        Outcome::NotExecuted { .. } => CallResult::NotExecuted,
        Outcome::Misconfigured { .. } => CallResult::Misconfigured,
        Outcome::InProgress { .. } => CallResult::InProgress,
        Outcome::Unknown { .. } => CallResult::Unknown,
    }
}

fn query_result(outcome: &QueryOutcome) -> CallResult {
    match outcome {
        QueryOutcome::Done { .. } => CallResult::Done,
        QueryOutcome::Rejected { .. } => CallResult::Rejected,
        QueryOutcome::InProgress { .. } => CallResult::InProgress,
        QueryOutcome::NeverSeen { .. } => CallResult::NeverSeen,
        QueryOutcome::Sealed => CallResult::Sealed,
        QueryOutcome::NoAnswer { .. } => CallResult::NoAnswer,
    }
}
