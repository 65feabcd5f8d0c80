//! What is answered, as the engine reads it.

use serde_json::{Value, json};

/// The most bytes that an answer may have as JSON. It is stored beside the effect and again in the engine's journal: a fact, not a document.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What an effect came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was carried out. The value is the fact that is answered; null stands for `{}`. Of a compensation it is an object, or null.
    Done(Value),
    /// Business refuses it, for good: what the effect wrote is undone, and the refusal is kept under the key.
    Rejected {
        /// Why, for people.
        reason: String,
    },
}

impl Outcome {
    /// A refusal.
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected { reason: reason.into() }
    }
}

/// The answer to an action or a compensation: the first call's, at every call.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Carried out, now or before. Of a compensation, the fact has `"undone": true`, or false if there was nothing to undo.
    Done(Value),
    /// Refused, for good; or it came after its compensation.
    Rejected {
        /// Why, for people.
        reason: String,
    },
}

impl Answer {
    /// The HTTP status: 200, or 422 for a refusal.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Done(_) => 200,
            Self::Rejected { .. } => 422,
        }
    }

    /// The JSON body: the fact, or the outcome and its reason.
    #[must_use]
    pub fn body(&self) -> Value {
        match self {
            Self::Done(fact) => fact.clone(),
            Self::Rejected { reason } => rejected(reason),
        }
    }
}

/// The answer to a query for a key.
///
/// It tells what is committed: an action whose transaction is still open counts as never seen. This is harmless behind a fence, for whatever
/// is sent next waits for that transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// Nothing arrived under this key, or not yet.
    NeverSeen,
    /// It was carried out, with this fact.
    Done(Value),
    /// It was refused, for good.
    Rejected {
        /// Why, for people.
        reason: String,
    },
    /// Its compensation came first: it never will be carried out.
    Sealed,
}

impl Found {
    /// The HTTP status: 404, 200, 409, 410.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NeverSeen => 404,
            Self::Done(_) => 200,
            Self::Rejected { .. } => 409,
            Self::Sealed => 410,
        }
    }

    /// The JSON body: the fact, or the outcome in words.
    #[must_use]
    pub fn body(&self) -> Value {
        match self {
            Self::NeverSeen => json!({ "outcome": "never_seen" }),
            Self::Done(fact) => fact.clone(),
            Self::Rejected { reason } => rejected(reason),
            Self::Sealed => json!({ "outcome": "sealed" }),
        }
    }
}

pub(crate) fn rejected(reason: &str) -> Value {
    json!({ "outcome": "rejected", "reason": reason })
}
