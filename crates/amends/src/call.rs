//! What a handler knows of the call that it carries out.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amends_core::{Key, OpKind, SagaId, Time};
use amends_participants::Outgoing;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One call of a handler. Cheap to clone.
///
/// The same operation may be called more than once, under the same [`key`](Call::key): after a time-out, a crash or a take-over, as far as the
/// step's [`Idempotency`](crate::Idempotency) allows it. Former calls may still be under way, here or in a process that is gone.
#[derive(Debug, Clone)]
pub struct Call(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    saga: SagaId,
    step: String,
    operation: OpKind,
    is_query: bool,
    key: Key,
    action_key: Option<Key>,
    attempt: u32,
    epoch: u64,
    expires: Time,
    trace: Option<String>,
    facts: Value,
}

impl Call {
    pub(crate) fn new(outgoing: &Outgoing, expires: Time, facts: Value) -> Self {
        let request = &outgoing.request;
        Self(Arc::new(Inner {
            saga: outgoing.saga.clone(),
            step: request.step.clone(),
            operation: request.operation,
            is_query: request.is_query,
            key: request.key.clone(),
            action_key: request.action_key.clone(),
            attempt: request.attempt,
            epoch: outgoing.epoch,
            expires,
            trace: outgoing.trace.clone(),
            facts,
        }))
    }

    /// The idempotency key: `{saga id}:{step}:action`, or `…:compensation`. The same over attempts, restarts and take-overs: keep it with
    /// the effect, under a unique constraint, or pass it on to a service that keeps it.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key.as_str()
    }

    /// The first 32 hexadecimal digits of the key's SHA-256, for services with short key fields.
    #[must_use]
    pub fn key_hash(&self) -> String {
        self.0.key.hash()
    }

    /// In a fenced compensation: the key of the action that is to be undone.
    #[must_use]
    pub fn action_key(&self) -> Option<&str> {
        self.0.action_key.as_ref().map(Key::as_str)
    }

    /// The saga's business id.
    #[must_use]
    pub fn saga(&self) -> &SagaId {
        &self.0.saga
    }

    /// The step's name.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.0.step
    }

    /// Whether it is the step's action or its compensation that is called, or asked about.
    #[must_use]
    pub fn operation(&self) -> OpKind {
        self.0.operation
    }

    /// Whether this asks about the operation rather than performing it.
    #[must_use]
    pub fn is_query(&self) -> bool {
        self.0.is_query
    }

    /// The number of the attempt, from 1; of a query, that of the attempt asked about.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The epoch in which this process owns the saga. It only grows: a resource that keeps the highest one it has seen can refuse the late
    /// writes of a process that was paused and replaced.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// When the call's time-out is over, on this machine's clock: the handler is dropped then, and the outcome is unknown. Who passes the
    /// work on may pass this on, for the other side to refuse what arrives later.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.0.expires.0).unwrap_or(0))
    }

    /// The `traceparent` under which the saga was submitted, if any.
    #[must_use]
    pub fn trace(&self) -> Option<&str> {
        self.0.trace.as_deref()
    }

    /// What the action of an earlier step answered: of a step that comes before this one in the definition.
    ///
    /// # Errors
    /// [`FactError`]: there is no fact of that step here, or it is none of this type. To be looked at before anything is done, as every error
    /// that a handler passes on is an unknown outcome.
    pub fn fact<T: DeserializeOwned>(&self, step: &str) -> Result<T, FactError> {
        read_fact(step, self.0.facts.get(step))
    }
}

/// Reads a fact as a type.
pub(crate) fn read_fact<T: DeserializeOwned>(step: &str, fact: Option<&Value>) -> Result<T, FactError> {
    let fact = fact.ok_or_else(|| FactError::Absent(step.to_owned()))?;
    T::deserialize(fact)
        .map_err(|error| FactError::Unfit { step: step.to_owned(), reason: error.to_string() })
}

/// Why there is no such fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// No step of this name has a fact here.
    #[error(
        "there is no fact of a step `{0}`: only steps that are done, and that come before this one, have one"
    )]
    Absent(String),
    /// The fact is there, and is not of this type.
    #[error("the fact of step `{step}` is not of the type asked for: {reason}")]
    Unfit {
        /// The step.
        step: String,
        /// What does not fit.
        reason: String,
    },
}
