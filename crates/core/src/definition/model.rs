//! A definition, checked and with every default filled in: what the machine works with.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::redis::RedisCommands;
use crate::template::{JsonTemplate, Template};

/// A saga's definition: immutable once registered; an instance is pinned to one by its digest.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// `saga`: the definition's name.
    pub name: String,
    /// `version`, at least 1.
    pub version: u64,
    /// SHA-256 (64 hexadecimal digits) of the canonical tree, so that TOML and JSON of equal trees agree.
    pub digest: String,
    /// Resources that an instance holds until it ends.
    pub claims: Vec<Template>,
    /// How long an instance may go forward before it is undone (rule 9), in milliseconds.
    pub deadline_ms: Option<u64>,
    /// Names of the business states.
    pub states: States,
    /// What each participant guarantees, by name.
    pub participants: BTreeMap<String, Participant>,
    /// The steps in the order of the file. `Step::after` and `Step::dependants` index into it.
    pub steps: Vec<Step>,
    /// The definition as it was given, as a JSON tree.
    pub tree: Arc<Value>,
}

impl Definition {
    /// The index of the step with this name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }

    /// The index of the pivot, if there is one.
    #[must_use]
    pub fn pivot(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.kind == StepKind::Pivot)
    }
}

/// Names of the business states (`[states]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct States {
    /// Before the first step that names one: `INIT`.
    pub initial: String,
    /// While undoing: `CANCELING`.
    pub canceling: String,
    /// Undone: `CANCELED`.
    pub canceled: String,
    /// Status `unknown`: `UNKNOWN`.
    pub unknown: String,
    /// Status `dead`: `MANUAL`.
    pub manual: String,
    /// Completed, where the last step names none: `DONE`.
    pub done: String,
}

impl Default for States {
    fn default() -> Self {
        Self {
            initial: "INIT".into(),
            canceling: "CANCELING".into(),
            canceled: "CANCELED".into(),
            unknown: "UNKNOWN".into(),
            manual: "MANUAL".into(),
            done: "DONE".into(),
        }
    }
}

/// What a participant guarantees (`[participants.NAME]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// What a repeat under the same key does.
    pub idempotency: Idempotency,
    /// How long it remembers a key, in milliseconds; default 24 h.
    pub key_ttl_ms: u64,
    /// What its query expressly does not know this long after a send never happens.
    pub seals_after_ms: Option<u64>,
    /// It keeps amends' fence (implies [`Idempotency::Replay`]).
    pub fenced: bool,
    /// A statement file, not a query, tells the truth.
    pub settled_by_statement: bool,
}

/// What a repeat under the same key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Idempotency {
    /// It may happen again.
    None,
    /// At most one effect a key, and none once its query said rejected.
    Effect,
    /// As `Effect`, and every call gets the first one's answer.
    Replay,
}

/// A unit with an action and optionally a compensation.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The step's name.
    pub name: String,
    /// Indexes of the steps that must be done first, ascending, without duplicates.
    pub after: Vec<usize>,
    /// Indexes of the steps that name this one in their `after`, ascending.
    pub dependants: Vec<usize>,
    /// The business state once this step is done.
    pub reaches: Option<String>,
    /// Where it stands towards the point of no return.
    pub kind: StepKind,
    /// `effect = "none"`: nothing to undo, whatever is known.
    pub effect_none: bool,
    /// What it does; a step without one is a decision point, done when its turn comes.
    pub action: Option<Operation>,
    /// How it is undone.
    pub compensation: Option<Operation>,
}

/// Where a step stands towards the point of no return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Can be undone: the pivot's ancestors, or every step where there is no pivot.
    Compensatable,
    /// The point of no return.
    Pivot,
    /// After it: driven forward until done.
    Retriable,
}

/// An action or a compensation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// The participant called.
    pub to: String,
    /// The HTTP method, upper case.
    pub method: Method,
    /// The path; every substituted value is one percent-encoded segment.
    pub path: Template,
    /// Extra headers; they may replace `Idempotency-Key`. Names are lower case.
    pub headers: Vec<(String, Template)>,
    /// The body sent.
    pub body: Body,
    /// JSON pointers to the participant's serial in the answer; the first that is present counts. Empty: none declared.
    pub serial: Vec<String>,
    /// Overrides of the answer table.
    pub outcome: Option<OutcomeRule>,
    /// How to ask what became of it.
    pub query: Option<Query>,
    /// How long one call may take, in milliseconds; default 3 s.
    pub timeout_ms: u64,
    /// How it is retried.
    pub retry: Retry,
    /// What happens while its outcome is unknown.
    pub on_unknown: OnUnknown,
    /// The effective guarantee: the operation's own, else its participant's.
    pub idempotency: Idempotency,
    /// The participant's `key_ttl`, in milliseconds.
    pub key_ttl_ms: u64,
    /// The participant's `seals_after`, in milliseconds. `Some` only where there is a query.
    pub seals_after_ms: Option<u64>,
    /// The participant keeps amends' fence.
    pub fenced: bool,
    /// The participant is settled by a statement: every send is journalled first.
    pub settled_by_statement: bool,
    /// What an exhausted, unsent action leads to (rule 7).
    pub on_exhausted: OnExhausted,
    /// How long to wait for a callback after 202, in milliseconds; default 15 min.
    pub callback_timeout_ms: u64,
}

impl Operation {
    /// Whether the entry that enables the operation also allows its first send (rule 1); otherwise even the first
    /// send is journalled by an entry of its own.
    #[must_use]
    pub fn first_send_is_implied(&self) -> bool {
        self.idempotency != Idempotency::None && !self.settled_by_statement
    }
}

/// HTTP methods a definition can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// PUT
    Put,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
}

impl Method {
    /// The method's name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What is sent as the body.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Nothing.
    None,
    /// `application/json`.
    Json(JsonTemplate),
    /// `application/x-www-form-urlencoded`, in the order of the keys.
    Form(Vec<(String, Template)>),
    /// None over HTTP: the operation is Redis commands, and its method and path mean nothing.
    Redis(RedisCommands),
}

/// How to ask what became of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The participant asked.
    pub to: String,
    /// The HTTP method.
    pub method: Method,
    /// The path.
    pub path: Template,
    /// Extra headers.
    pub headers: Vec<(String, Template)>,
    /// The body sent.
    pub body: Body,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// Overrides of the query answer table.
    pub outcome: Option<OutcomeRule>,
    /// JSON pointers to the serial in the query's answer; the operation's unless it has its own.
    pub serial: Vec<String>,
    /// It uses `${serial}`: it is not asked while no serial is known.
    pub needs_serial: bool,
}

/// `outcome = { at, done, rejected, … , codes }`: overrides of the answer tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutcomeRule {
    /// JSON pointers into a 2xx body; the first present counts. Empty: bodies are not read for an outcome.
    pub at: Vec<String>,
    /// Values (as JSON; compared by exact text) that mean each outcome.
    pub values: Vec<(Value, OutcomeWord)>,
    /// Statuses that mean an outcome whatever the body.
    pub codes: BTreeMap<u16, OutcomeWord>,
}

/// The words an `outcome` rule may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeWord {
    /// Executed.
    Done,
    /// Refused for good.
    Rejected,
    /// Accepted, not finished.
    InProgress,
    /// This attempt was not executed (not for a query).
    NotExecuted,
    /// Not known under this key (only for a query); *express*.
    NeverSeen,
    /// Will never be executed under this key (only for a query).
    Sealed,
}

/// How an operation is retried (rule 10). Times in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// The first back-off; default 1 s.
    pub initial_ms: u64,
    /// What each further one is multiplied by; default 2.
    pub factor: f64,
    /// The longest back-off; default 8 s.
    pub max_interval_ms: u64,
    /// How many attempts use the budget; default 5.
    pub max_attempts: u32,
    /// The sum of call times, back-offs and `Retry-After` waits; default 60 s.
    pub budget_ms: u64,
    /// The fraction by which a back-off may be shortened; default 0.1.
    pub jitter: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            initial_ms: 1_000,
            factor: 2.0,
            max_interval_ms: 8_000,
            max_attempts: 5,
            budget_ms: 60_000,
            jitter: 0.1,
        }
    }
}

impl Retry {
    /// The back-off after the `attempt`-th attempt (from 1), before jitter.
    #[must_use]
    pub fn backoff_ms(&self, attempt: u32) -> u64 {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        #[allow(clippy::cast_precision_loss, reason = "intervals are far below 2^53 ms")]
        let ms = (self.initial_ms as f64 * self.factor.powi(exponent)).min(self.max_interval_ms as f64);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=max_interval"
        )]
        let ms = ms.max(0.0) as u64;
        ms
    }
}

/// What happens while an outcome is unknown (rule 3). Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnUnknown {
    /// How often to query before resending; default 2.
    pub queries: u32,
    /// How far apart; default 1 s.
    pub interval_ms: u64,
    /// When to verify afterwards; the last repeats; default 1 m, 5 m, 30 m, 2 h. Never empty.
    pub verify_ms: Vec<u64>,
    /// How long; default 24 h, or 5 d where a statement settles.
    pub verify_for_ms: u64,
}

/// What an exhausted action that is still unsent leads to (rule 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExhausted {
    /// Undo the saga (default).
    Compensate,
    /// Put it before a person.
    Dead,
}
