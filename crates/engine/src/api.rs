//! What callers of the engine give and get: independent of HTTP, of any store and of any participant.

use std::sync::Arc;

use amends_core::{Problem, Saga, SagaId, Time};
use amends_store::{Holder, Row, StoredEntry};
use serde_json::Value;

/// A request to begin a saga.
#[derive(Debug, Clone)]
pub struct Start {
    /// Name of the definition.
    pub saga: String,
    /// Its version; `None`: the highest.
    pub version: Option<u64>,
    /// The business id.
    pub id: SagaId,
    /// The input.
    pub input: Value,
    /// `traceparent` of the request.
    pub trace: Option<String>,
    /// Who asks.
    pub who: String,
}

/// A saga as somebody sees it.
#[derive(Debug, Clone)]
pub enum View {
    /// With its whole state.
    Whole(Arc<Saga>),
    /// Its journal was removed by retention, or cannot be read: the list row is all there is.
    Row {
        /// The row.
        row: Box<Row>,
        /// Why there is no more, in plain words.
        why: String,
    },
}

/// The answer to a [`Start`].
#[derive(Debug, Clone)]
pub struct Started {
    /// The saga.
    pub view: View,
    /// It is new; else it was known, with the same definition name and input.
    pub created: bool,
}

/// Why the engine refuses. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// No such definition (or version).
    #[error("no definition {0} is registered; apply it first")]
    UnknownDefinition(String),
    /// The definition text has problems.
    #[error("the definition has {} problem(s)", .0.len())]
    InvalidDefinition(Vec<amends_core::definition::Diagnostic>),
    /// This name and version exist with other content.
    #[error("{name} version {version} is registered with other content (digest {digest}); raise `version`")]
    DefinitionConflict {
        /// Its name.
        name: String,
        /// Its version.
        version: u64,
        /// Digest of what is registered.
        digest: String,
    },
    /// A path in the definition is missing in the input.
    #[error("the definition needs `{0}`, which the input does not have")]
    MissingInput(String),
    /// The request is not well-formed in another way.
    #[error("{0}")]
    Malformed(String),
    /// The id exists with another definition name or input.
    #[error("{0} exists with another definition or input; a business id names one operation")]
    InputConflict(SagaId),
    /// A claim is held by another saga.
    #[error("`{}` is held by {} since {}", .0.claim, .0.saga, .0.since.0)]
    ClaimHeld(Box<Holder>),
    /// No such saga.
    #[error("there is no saga {0}")]
    UnknownSaga(SagaId),
    /// The core refuses it.
    #[error("{detail}")]
    Core {
        /// Which problem.
        problem: Problem,
        /// Why, and what to do.
        detail: String,
    },
    /// Too much is under way: come back in this many milliseconds. Nothing was accepted.
    #[error("the engine is at its limit ({what}); try again in {retry_after_ms} ms")]
    Overloaded {
        /// Which limit was hit.
        what: &'static str,
        /// When to come back.
        retry_after_ms: u64,
    },
    /// The store cannot be used. For a write whose answer was lost the outcome is not known: ask again with the same id.
    #[error("{0}")]
    Store(amends_store::Error),
}

/// The text of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionText {
    /// In TOML.
    Toml(String),
    /// In JSON.
    Json(String),
}

/// A page of a journal.
#[derive(Debug, Clone)]
pub struct JournalPage {
    /// The entries.
    pub entries: Vec<StoredEntry>,
    /// The definition, for names of steps, if it is known.
    pub definition: Option<Arc<amends_core::Definition>>,
    /// There are more after the last.
    pub more: bool,
}

/// A registered definition.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The definition.
    pub definition: Arc<amends_core::Definition>,
    /// It is new; else the same content was known.
    pub created: bool,
    /// Warnings found when it was read.
    pub warnings: Vec<amends_core::definition::Diagnostic>,
    /// When it was registered.
    pub created_at: Time,
}
