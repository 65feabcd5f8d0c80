//! What is submitted, checked before a database is asked.

use amends_core::definition::check_input;
use amends_core::{SagaId, json};
use serde::Serialize;

use super::SubmitError;
use crate::Saga;
use crate::locks::Held;

/// A submission that fits its definition.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(any(feature = "rusqlite", feature = "sqlx")),
    allow(dead_code, reason = "only drivers read it")
)]
pub struct Submission {
    pub(crate) saga: String,
    pub(crate) id: SagaId,
    /// JSON.
    pub(crate) input: String,
    claims: Vec<String>,
}

impl Submission {
    pub(crate) fn new<I: Serialize>(saga: &Saga<I>, id: String, input: &I) -> Result<Self, SubmitError> {
        let id = SagaId::new(id).map_err(|bad| SubmitError::Unfit(bad.to_string()))?;
        let input = serde_json::to_value(input)
            .map_err(|error| SubmitError::Unfit(format!("the input cannot be written as JSON: {error}")))?;
        if !json::can_be_kept(&input) {
            let words = format!(
                "the input is nested more than {} deep, or has a reserved member name",
                json::DEPTH_MAX
            );
            return Err(SubmitError::Unfit(words));
        }
        let definition = saga.definition();
        let claims = check_input(definition, &id, &input)
            .map_err(|missing| SubmitError::Unfit(missing.to_string()))?;
        Ok(Self { saga: definition.name.clone(), id, input: input.to_string(), claims })
    }

    /// Checks that it covers a lock that still lasts.
    pub(crate) fn covering(self, held: &Held) -> Result<Self, SubmitError> {
        held.check()?;
        let lock = held.name();
        if self.id.as_str() == lock || self.claims.iter().any(|claim| claim == lock) {
            return Ok(self);
        }
        Err(SubmitError::NotCovered { saga: self.id, lock: lock.to_owned() })
    }
}
