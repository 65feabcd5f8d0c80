//! A step whose operations are handlers in this process.

use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use amends_core::OpKind;
use amends_core::definition::{Idempotency, OnExhausted, OnUnknown, Retry};
use amends_participants::config::MAX_CONCURRENCY;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handler::{self, Handler};
use crate::{Call, Failure, Found, Undone};

/// A step that has no action yet.
#[derive(Debug)]
pub enum NoAction {}

/// A step: an action, and how it is undone. `I` is the saga's input, `F` what the action answers.
///
/// Handlers run on the service's own runtime, each in a task: what blocks belongs in `spawn_blocking`. A step whose calls failed five times in a row
/// within 30 s (refusals do not count) is left alone for 5 s, doubling to a minute, by its breaker.
///
/// What is not said has the safe default: [`Idempotency::None`], so that nothing is called a second time while the first call may have
/// happened. What such a step cannot settle by itself waits for a person, and [`Saga::warnings`](crate::Saga::warnings) names it.
///
/// ```
/// # use amends::{Call, Failure, Found, Idempotency, Step};
/// # use std::time::Duration;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Order { amount: i64 }
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Charged { charge: String }
/// async fn charge(call: Call, order: Order) -> Result<Charged, Failure> {
///     # let _ = order.amount;
///     Ok(Charged { charge: call.key_hash() })
/// }
/// async fn look_up(call: Call, _: Order) -> Result<Found<Charged>, Failure> {
///     Ok(Found::Done(Charged { charge: call.key_hash() }))
/// }
/// async fn refund(_: Call, _: Order, charged: Charged) -> Result<(), Failure> {
///     # drop(charged.charge);
///     Ok(())
/// }
/// let step = Step::new("charge")
///     .action(charge)
///     .query(look_up)
///     .compensation(refund)
///     .idempotency(Idempotency::Effect)
///     .compensation_idempotency(Idempotency::Replay)
///     .timeout(Duration::from_secs(5));
/// ```
#[must_use = "a step does nothing until it is part of a saga"]
pub struct Step<I, F> {
    pub(crate) spec: StepSpec,
    types: PhantomData<fn(I) -> F>,
}

/// A step without its types.
pub(crate) struct StepSpec {
    pub(crate) name: String,
    pub(crate) after: Option<Vec<String>>,
    pub(crate) facts: Option<Vec<String>>,
    pub(crate) reaches: Option<String>,
    pub(crate) pivot: bool,
    pub(crate) effect_none: bool,
    pub(crate) idempotency: Idempotency,
    pub(crate) compensation_idempotency: Option<Idempotency>,
    pub(crate) fenced: bool,
    pub(crate) key_ttl: Option<Duration>,
    pub(crate) seals_after: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) on_unknown: Option<OnUnknown>,
    pub(crate) on_exhausted: Option<OnExhausted>,
    pub(crate) serial: Option<String>,
    pub(crate) max_concurrency: usize,
    pub(crate) handlers: Handlers,
}

/// The handlers of a step.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    pub(crate) action: Option<Handler>,
    pub(crate) query: Option<Handler>,
    pub(crate) compensation: Option<Handler>,
    pub(crate) compensation_query: Option<Handler>,
}

impl Handlers {
    pub(crate) fn of(&self, operation: OpKind, is_query: bool) -> Option<&Handler> {
        match (operation, is_query) {
            (OpKind::Action, false) => self.action.as_ref(),
            (OpKind::Action, true) => self.query.as_ref(),
            (OpKind::Compensation, false) => self.compensation.as_ref(),
            (OpKind::Compensation, true) => self.compensation_query.as_ref(),
        }
    }
}

impl Step<NoAction, NoAction> {
    /// Begins a step: `[a-z][a-z0-9_-]*`, up to 58 characters.
    pub fn new(name: impl Into<String>) -> Self {
        Self::of(StepSpec {
            name: name.into(),
            after: None,
            facts: None,
            reaches: None,
            pivot: false,
            effect_none: false,
            idempotency: Idempotency::None,
            compensation_idempotency: None,
            fenced: false,
            key_ttl: None,
            seals_after: None,
            timeout: None,
            retry: None,
            on_unknown: None,
            on_exhausted: None,
            serial: None,
            max_concurrency: MAX_CONCURRENCY,
            handlers: Handlers::default(),
        })
    }

    /// What the step does: `async fn(Call, Input) -> Result<Fact, Failure>`. The fact is journalled: keep it small, at most 1 MiB as JSON.
    pub fn action<I, F, H, R>(mut self, handler: H) -> Step<I, F>
    where
        I: DeserializeOwned,
        F: Serialize,
        H: Fn(Call, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<F, Failure>> + Send + 'static,
    {
        self.spec.handlers.action = Some(handler::action(handler));
        Step::of(self.spec)
    }
}

impl<I, F> Step<I, F> {
    fn of(spec: StepSpec) -> Self {
        Self { spec, types: PhantomData }
    }

    /// How the action is undone: `async fn(Call, Input, Fact) -> Result<_, Failure>`. It is called only when the action is known to be done,
    /// with what that answered, and again under the same key until it is done.
    pub fn compensation<C, H, R>(mut self, handler: H) -> Self
    where
        I: DeserializeOwned,
        F: DeserializeOwned,
        C: Serialize,
        H: Fn(Call, I, F) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, Failure>> + Send + 'static,
    {
        self.spec.handlers.compensation = Some(handler::compensation(handler));
        self.spec.fenced = false;
        self
    }

    /// How the action is undone behind a fence: `async fn(Call, Input) -> Result<Undone, Failure>`. It may be called while nobody knows whether
    /// the action was done; it looks under [`Call::action_key`], and if there is nothing it records that the action must be refused from
    /// now on, in one transaction. Both operations are then [`Idempotency::Replay`], and have to be.
    pub fn fenced_compensation<H, R>(mut self, handler: H) -> Self
    where
        I: DeserializeOwned,
        H: Fn(Call, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Undone, Failure>> + Send + 'static,
    {
        self.spec.handlers.compensation = Some(handler::fenced(handler));
        self.spec.fenced = true;
        self
    }

    /// How to find out what became of the action: `async fn(Call, Input) -> Result<Found<Fact>, Failure>`.
    pub fn query<H, R>(mut self, handler: H) -> Self
    where
        I: DeserializeOwned,
        F: Serialize,
        H: Fn(Call, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Found<F>, Failure>> + Send + 'static,
    {
        self.spec.handlers.query = Some(handler::query(handler));
        self
    }

    /// How to find out what became of the compensation: done means that it is undone.
    pub fn compensation_query<C, H, R>(mut self, handler: H) -> Self
    where
        I: DeserializeOwned,
        C: Serialize,
        H: Fn(Call, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Found<C>, Failure>> + Send + 'static,
    {
        self.spec.handlers.compensation_query = Some(handler::query(handler));
        self
    }

    /// What a repeat under the same key does, of both operations; default [`Idempotency::None`]. It is a promise that the handlers keep: with
    /// `Effect` and `Replay` they are called again after a time-out or a crash.
    pub fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.spec.idempotency = idempotency;
        self
    }

    /// The compensation's, where it differs.
    pub fn compensation_idempotency(mut self, idempotency: Idempotency) -> Self {
        self.spec.compensation_idempotency = Some(idempotency);
        self
    }

    /// How long the handlers remember a key; default 24 h. After that nothing is repeated.
    pub fn key_ttl(mut self, time: Duration) -> Self {
        self.spec.key_ttl = Some(time);
        self
    }

    /// What the query expressly does not know ([`Found::NeverSeen`]) this long after a call never happens any more, for example because
    /// what arrives after [`Call::expires`] is refused. Less than [`Step::key_ttl`].
    pub fn seals_after(mut self, time: Duration) -> Self {
        self.spec.seals_after = Some(time);
        self
    }

    /// The steps that must be done first. Default: the step before; none of them: it starts at once.
    pub fn after<S: Into<String>>(mut self, steps: impl IntoIterator<Item = S>) -> Self {
        self.spec.after = Some(steps.into_iter().map(Into::into).collect());
        self
    }

    /// Of which earlier steps the handlers get the facts. Default: of all that come before. A step whose fact is asked for here cannot be
    /// left out by a person ("skip").
    pub fn facts_of<S: Into<String>>(mut self, steps: impl IntoIterator<Item = S>) -> Self {
        self.spec.facts = Some(steps.into_iter().map(Into::into).collect());
        self
    }

    /// The business state once it is done.
    pub fn reaches(mut self, state: impl Into<String>) -> Self {
        self.spec.reaches = Some(state.into());
        self
    }

    /// The point of no return: what comes before is undone or done with it, what comes after is driven forward until it is done.
    pub fn pivot(mut self) -> Self {
        self.spec.pivot = true;
        self
    }

    /// It has no effect that would have to be undone.
    pub fn without_effect(mut self) -> Self {
        self.spec.effect_none = true;
        self
    }

    /// How long one call may take; default 3 s. The handler is then dropped, and the outcome unknown. Without [`Step::retry`] the budget grows with it.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.spec.timeout = Some(time);
        self
    }

    /// How both operations are retried.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.spec.retry = Some(retry);
        self
    }

    /// What happens while an outcome is unknown.
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.spec.on_unknown = Some(on_unknown);
        self
    }

    /// What follows when the action's retries are over and it was certainly not done; default: the saga is undone.
    pub fn on_exhausted(mut self, then: OnExhausted) -> Self {
        self.spec.on_exhausted = Some(then);
        self
    }

    /// Where in the fact the other side's own number for it stands: a JSON pointer such as `/charge_id`. A fact without it counts as unknown.
    pub fn serial(mut self, pointer: impl Into<String>) -> Self {
        self.spec.serial = Some(pointer.into());
        self
    }

    /// How many calls of this step may be under way in this process at once; default 256. It is not part of the definition.
    pub fn max_concurrency(mut self, calls: usize) -> Self {
        self.spec.max_concurrency = calls;
        self
    }
}

impl<I, F> std::fmt::Debug for Step<I, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.spec.name).finish_non_exhaustive()
    }
}
