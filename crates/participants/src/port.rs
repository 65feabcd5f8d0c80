//! The port through which the engine calls participants. It names no HTTP library: the simulation has its own behind it.

use std::fmt;
use std::sync::Arc;

use amends_core::request::Request;
use amends_core::{Answer, SagaId, Time};
use async_trait::async_trait;

/// Reads the node's wall clock.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Whether the node's lease still holds, on a clock that runs through suspend (rule 1). It is asked right before each
/// socket write, so it must be cheap and must not block.
pub type LeaseCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Carries out one call to a participant.
#[async_trait]
pub trait Caller: Send + Sync {
    /// Sends one request, at most once, and says what became of it.
    ///
    /// It never sends again once a single byte of the request may have left, so a second call is a second send: the
    /// caller decides that. Dropping the future, like a crash, leaves the outcome open: the request may have been sent.
    /// It ends by itself within the request's time-out, plus the second it may wait for a free place.
    async fn call(&self, outgoing: Outgoing) -> Called;
}

/// A request with what the caller knows about it and the core does not.
#[derive(Clone)]
pub struct Outgoing {
    /// What to send.
    pub request: Request,
    /// The saga on whose behalf it is sent.
    pub saga: SagaId,
    /// The epoch in which this node owns the saga.
    pub epoch: u64,
    /// The `traceparent` under which the saga was submitted.
    pub trace: Option<String>,
    /// Whether the node may still write for the saga.
    pub lease: LeaseCheck,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("key", &self.request.key.as_str())
            .field("to", &self.request.to)
            .field("attempt", &self.request.attempt)
            .field("is_query", &self.request.is_query)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// There is an answer, or the certainty or doubt that stands for one.
    Answered {
        /// What came back.
        answer: Answer,
        /// How long it took in milliseconds, without the wait for a free place: only this counts towards a budget.
        took_ms: u64,
    },
    /// Nothing was sent, and no attempt is used (rule 10).
    Held {
        /// Why.
        reason: HeldReason,
        /// In how many milliseconds it may be possible.
        retry_in_ms: u64,
    },
    /// The lease no longer held when the first byte was to be written. Nothing was sent.
    LeaseLost,
}

/// Why a call is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldReason {
    /// The participant's breaker is open.
    BreakerOpen,
    /// As many calls as allowed were in flight, for as long as a call waits.
    LimitFull,
}
