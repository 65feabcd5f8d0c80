//! What came back from a call, and what it means (semantics, section 3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod body;
mod read;

pub use body::REASON_BYTES_MAX;
pub use read::{read_answer, read_query};

/// What came back from one HTTP call, before any meaning is read into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A complete response within the size limit.
    Response {
        /// The HTTP status.
        status: u16,
        /// `Retry-After` in milliseconds, where the header was present and could be read (seconds or a date).
        retry_after_ms: Option<u64>,
        /// The whole body.
        body: Vec<u8>,
    },
    /// Nothing was sent: connection refused, DNS or TLS failed before sending. Or what was sent was certainly not carried out, as a
    /// participant that does not speak HTTP may say. With a reason in plain words.
    NotSent(String),
    /// It cannot be called as configured (participant not in `amends.toml`, bad URL, a secret that is missing). Nothing was sent.
    Misconfigured(String),
    /// Sent, or perhaps sent, and no complete answer: time-out, connection lost, oversized body. With a reason in plain words.
    Lost(String),
}

/// What an answer to an action or a compensation means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Executed.
    Done {
        /// What it answered.
        fact: Value,
        /// The participant's own number for it, where the definition declares one.
        serial: Option<Value>,
    },
    /// Refused.
    Rejected {
        /// Why, in the participant's words.
        reason: String,
        /// It was 402 or 422, or its JSON (or an `outcome` rule) said rejected: under `replay` this settles even after
        /// other attempts (section 1).
        explicit: bool,
    },
    /// This attempt was not executed; may be tried again.
    NotExecuted {
        /// Why.
        reason: String,
        /// How long the participant asked to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// A configuration fault: not executed, no attempt used.
    Misconfigured {
        /// Why.
        reason: String,
    },
    /// Accepted, not finished.
    InProgress {
        /// A serial, if the answer had the declared one.
        serial: Option<Value>,
    },
    /// Nobody can tell.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// What an answer to a query means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryOutcome {
    /// Executed; of a compensation: it is undone.
    Done {
        /// The answer's body.
        fact: Value,
        /// The serial, where declared.
        serial: Option<Value>,
    },
    /// Nothing under this key will be executed, also not what is on its way.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Accepted, not finished.
    InProgress {
        /// A serial, if the answer had the declared one.
        serial: Option<Value>,
    },
    /// Not known under this key.
    NeverSeen {
        /// Said so expressly, not by a bare 404.
        express: bool,
    },
    /// Will never be executed under this key.
    Sealed,
    /// No answer: ask again.
    NoAnswer {
        /// Why.
        reason: String,
    },
}
