//! Why a person's action is refused.

/// Which problem it is; each has its type in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The step does not exist.
    UnknownStep,
    /// The state does not allow it.
    WrongState,
    /// The point of no return has been passed.
    PastPivot,
    /// The saga has moved since it was seen.
    StaleVersion,
    /// The version seen is required.
    VersionRequired,
    /// A reason is required.
    ReasonRequired,
    /// The key is too old to be relied on.
    KeyExpired,
    /// What was given cannot be used.
    Malformed,
}

/// A refusal. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// Which problem.
    pub problem: Problem,
    /// Why, and what can be done instead.
    pub detail: String,
}

impl Refusal {
    pub(super) fn new(problem: Problem, detail: impl Into<String>) -> Self {
        Self { problem, detail: detail.into() }
    }

    pub(super) fn wrong_state(detail: impl Into<String>) -> Self {
        Self::new(Problem::WrongState, detail)
    }
}
