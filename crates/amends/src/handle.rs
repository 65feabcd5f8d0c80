//! A saga in the hands of who submitted it.

use std::marker::PhantomData;
use std::time::Duration;

use amends_core::status::{self, status};
use amends_core::{By, Person, PersonAction, Saga as State, SagaId, Status};
use amends_engine::{Refused, View};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::call::read_fact;
use crate::{Amends, FactError};

/// How long one look for the end lasts: the engine wakes whoever waits, so that this only bounds a single wait.
const LOOK: Duration = Duration::from_secs(60);

/// How long a saga is waited for that is just being taken up from a transaction of the caller's: longer than the engine's scan.
const COMMITTED_WITHIN: Duration = Duration::from_secs(2);

/// A saga. Dropping it changes nothing about the saga.
pub struct Handle<I> {
    amends: Amends,
    id: SagaId,
    is_new: Option<bool>,
    input: PhantomData<fn() -> I>,
}

/// How a saga stands when it goes no further by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Every effect happened.
    Completed(Facts),
    /// No effect is left: it was refused, cancelled or too late, and undone.
    Compensated {
        /// Why it was undone, in plain words.
        reason: String,
    },
    /// A person closed it as it was.
    Resolved {
        /// Why.
        reason: String,
    },
    /// Nobody can tell whether something happened. Its claims stay; it is verified now and then, and may go on.
    Unknown {
        /// What is not known.
        reason: String,
    },
    /// Machines may no longer drive it: it waits for a person.
    Dead {
        /// Why.
        reason: String,
    },
}

/// What the steps of a saga answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts(Map<String, Value>);

impl Facts {
    /// What the action of a step answered.
    ///
    /// # Errors
    /// [`FactError`]: the step has none (its journal may have been removed by retention), or it is not of this type.
    pub fn get<T: DeserializeOwned>(&self, step: &str) -> Result<T, FactError> {
        read_fact(step, self.0.get(step))
    }
}

impl<I> Handle<I> {
    pub(crate) fn new(amends: Amends, id: SagaId, is_new: Option<bool>) -> Self {
        Self { amends, id, is_new, input: PhantomData }
    }

    /// Its business id.
    #[must_use]
    pub fn id(&self) -> &SagaId {
        &self.id
    }

    /// Whether this submission began it; otherwise it was known already. `None`: this handle comes from no submission.
    #[must_use]
    pub fn is_new(&self) -> Option<bool> {
        self.is_new
    }

    /// The saga as it is now, with everything that is known of it. One that was committed a moment ago, in a transaction of the caller's, is waited for.
    ///
    /// # Errors
    /// [`Refused::UnknownSaga`], or the store's.
    pub async fn view(&self) -> Result<View, Refused> {
        self.amends.engine().saga_soon(&self.id, COMMITTED_WITHIN).await
    }

    /// What it is doing.
    ///
    /// # Errors
    /// As [`Handle::view`]; also if the store has a status that this version does not know.
    pub async fn status(&self) -> Result<Status, Refused> {
        status_of(&self.view().await?)
    }

    /// Waits until it goes no further by itself, however long that takes: ended, unknown, or dead. A saga that waits for something else to become
    /// available (a configuration fault, an open breaker) is waited for as well.
    ///
    /// # Errors
    /// [`Refused::UnknownSaga`], [`Refused::Overloaded`] if too many wait already, or the store's. The saga goes on all the same.
    pub async fn outcome(&self) -> Result<Outcome, Refused> {
        loop {
            if let Some(outcome) = self.outcome_within(LOOK).await? {
                return Ok(outcome);
            }
        }
    }

    /// As [`Handle::outcome`], but no longer than this. `None`: it is still going.
    ///
    /// # Errors
    /// As [`Handle::outcome`].
    pub async fn outcome_within(&self, at_most: Duration) -> Result<Option<Outcome>, Refused> {
        let until = Instant::now() + at_most;
        let engine = self.amends.engine();
        engine.saga_soon(&self.id, COMMITTED_WITHIN.min(at_most)).await?;
        let view = engine.wait(&self.id, until.saturating_duration_since(Instant::now())).await?;
        let reason = reason_of(&view);
        Ok(match status_of(&view)? {
            Status::Completed => Some(Outcome::Completed(facts(&view))),
            Status::Compensated => Some(Outcome::Compensated { reason }),
            Status::Resolved => Some(Outcome::Resolved { reason }),
            Status::Unknown => Some(Outcome::Unknown { reason }),
            Status::Dead => Some(Outcome::Dead { reason }),
            Status::Accepting | Status::Running | Status::Compensating => None,
        })
    }

    /// Cancels it: what was done is undone, unless it has passed its point of no return. When it returns, that is durable; again is harmless.
    ///
    /// # Errors
    /// [`Refused`]: it has ended, or its point of no return is passed.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<(), Refused> {
        let by = By { who: self.amends.who().to_owned(), reason: reason.into() };
        let person = Person { by, version: None, action: PersonAction::Cancel };
        self.amends.engine().act(&self.id, person).await.map(drop)
    }
}

fn status_of(view: &View) -> Result<Status, Refused> {
    match view {
        View::Whole(saga) => Ok(status(saga)),
        View::Row { row, .. } => Status::parse(&row.status).ok_or_else(|| {
            let message = format!("the store says `{}`, which this version does not know", row.status);
            Refused::Store(amends_store::Error::new(amends_store::Kind::Corrupt, message))
        }),
    }
}

fn reason_of(view: &View) -> String {
    match view {
        View::Whole(saga) => status::reason(saga).unwrap_or_default(),
        View::Row { row, why } => row.reason.clone().unwrap_or_else(|| why.clone()),
    }
}

fn facts(view: &View) -> Facts {
    let View::Whole(saga) = view else { return Facts::default() };
    let saga: &State = saga;
    let facts = saga.definition.steps.iter().zip(&saga.steps);
    let facts = facts.filter_map(|(step, state)| Some((step.name.clone(), state.action.fact()?.0.clone())));
    Facts(facts.collect())
}

impl<I> std::fmt::Debug for Handle<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}
