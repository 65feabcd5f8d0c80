//! What goes into the machine. Time and randomness arrive here, with everything else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Outcome, QueryOutcome};
use crate::{By, OpRef, SagaId, Time};

/// What is needed to begin a saga.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Its business id.
    pub id: SagaId,
    /// Its input.
    pub input: Value,
    /// Its claims are to be taken later (rule 13).
    pub accepting: bool,
    /// `traceparent` of the request.
    pub trace: Option<String>,
    /// Epoch of the node.
    pub epoch: u64,
    /// Who submits it.
    pub who: String,
}

/// Everything that can move a saga.
///
/// Serialised, an input is what is put into a mailbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Time has passed: do what is due.
    Tick,
    /// This node takes the saga over from another, or from its own former life.
    TakeOver {
        /// The node's epoch.
        epoch: u64,
        /// The former owner stopped while it had it; otherwise it was nobody's.
        lapsed: bool,
    },
    /// The store lost entries of this saga, or may have, and people accepted that. Decided after the take-over that goes with it; a second one
    /// of the same loss changes nothing.
    Lost {
        /// Which loss: the store's epoch since then.
        loss: u64,
    },
    /// A call that performs an operation was answered. Exactly one of these or of [`Input::Held`] follows each
    /// [`crate::Effect::Perform`] while the node lives.
    Answered {
        /// Which operation.
        op: OpRef,
        /// Number of the attempt.
        attempt: u32,
        /// What the answer means.
        outcome: Outcome,
        /// How long the call took, in milliseconds.
        took_ms: u64,
    },
    /// A call that performs an operation was held back for more than a second and not sent.
    Held {
        /// Which operation.
        op: OpRef,
        /// Number of the attempt.
        attempt: u32,
        /// Why.
        reason: crate::saga::ParkReason,
        /// In how many milliseconds it may be possible.
        retry_in_ms: u64,
    },
    /// A query was answered. Exactly one follows each [`crate::Effect::Ask`] while the node lives.
    Asked {
        /// Which operation was asked about.
        op: OpRef,
        /// Number of the query.
        n: u32,
        /// What the answer means.
        outcome: QueryOutcome,
    },
    /// Evidence from elsewhere: a callback, a statement, a late answer.
    Evidence {
        /// Which operation.
        op: OpRef,
        /// Its key's generation.
        generation: u32,
        /// What it says.
        evidence: Evidence,
        /// Where it comes from: `callback`, `statement`, `late answer`.
        source: String,
    },
    /// The claims of an `accepting` saga were taken in the same commit, or refused.
    Claimed {
        /// Which saga holds one of them; `None` if they are taken.
        held_by: Option<String>,
    },
    /// The input of an `accepting` saga does not fit its definition (rule 13).
    Unfit {
        /// Why.
        reason: String,
    },
    /// A person, or a program on somebody's behalf, acts.
    Person(Person),
}

/// What evidence says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Executed.
    Done {
        /// The fact.
        fact: Value,
    },
    /// Refused.
    Rejected {
        /// Why.
        reason: String,
        /// It said so in so many words (JSON), not by a bare status.
        explicit: bool,
    },
    /// Will never be executed: a complete statement that covers the time.
    Sealed,
}

/// A person's action (rule 15).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Person {
    /// Who, and why.
    pub by: By,
    /// The version they saw; required by all but `cancel`.
    pub version: Option<u64>,
    /// What they want.
    pub action: PersonAction,
}

/// What a person can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonAction {
    /// Undo the saga.
    Cancel,
    /// Try an operation again, with a new budget, now.
    Retry {
        /// The step's name.
        step: String,
        /// Default: the one not settled, else the dead one.
        operation: Option<crate::OpKind>,
        /// Lift rules 2 and 11.
        force: bool,
        /// Under a new key.
        new_key: bool,
    },
    /// Say what became of an operation.
    Resolve {
        /// The step's name.
        step: String,
        /// Default: the one not settled, else the dead one.
        operation: Option<crate::OpKind>,
        /// Executed with this fact, or `None`: not executed and never will be.
        done: Option<Value>,
    },
    /// Leave a step out.
    Skip {
        /// The step's name.
        step: String,
    },
    /// End it as it is.
    Close,
}

/// When, and with what randomness, an input is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    /// The deciding node's clock.
    pub at: Time,
    /// A drawn number that spreads back-offs.
    pub jitter: crate::Jitter,
}
