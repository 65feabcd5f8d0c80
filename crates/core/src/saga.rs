//! The state of a saga, as its journal makes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::{Definition, Operation};
use crate::{By, Key, OpKind, OpRef, SagaId, Time, UndoReason};

/// One business operation across systems: an instance of a definition. Only [`crate::apply`] changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Saga {
    /// The definition it is pinned to.
    pub definition: Arc<Definition>,
    /// Its business id.
    pub id: SagaId,
    /// What it was submitted with.
    pub input: Arc<Value>,
    /// The resources it holds, or will hold once accepted.
    pub claims: Arc<Vec<String>>,
    /// `traceparent` of the submission, passed on to participants.
    pub trace: Option<Arc<str>>,
    /// Number of its last entry.
    pub seq: u64,
    /// When it was submitted.
    pub created_at: Time,
    /// When its last entry was written.
    pub updated_at: Time,
    /// When it will be undone if it has not passed the pivot.
    pub deadline_at: Option<Time>,
    /// Submitted in a caller's SQL transaction, claims not taken yet; when they are tried again.
    pub accepting: Option<Accepting>,
    /// Which way it goes.
    pub direction: Direction,
    /// Why it is being undone, and who said so.
    pub undo: Option<(UndoReason, Option<By>)>,
    /// A cancel or deadline that waits for the pivot to be settled.
    pub undo_pending: Option<(UndoReason, Option<By>)>,
    /// The deadline passed when it could no longer be undone.
    pub overdue: bool,
    /// The business state of the last step done that names one.
    pub reached: Option<String>,
    /// Index of the step that was done last, and whether it names a business state.
    pub last_done: Option<usize>,
    /// The steps, in the definition's order.
    pub steps: Vec<StepState>,
    /// How it ended.
    pub ended: Option<Ended>,
    /// Why it can go no further although no operation says so (three take-overs in a row, an input that does not fit).
    pub stuck: Option<String>,
    /// Epoch of the node that wrote `submitted`, or that took it over last.
    pub epoch: u64,
    /// Take-overs from nodes that stopped while they had it with something in flight or due, since the last entry of another kind.
    pub take_overs_in_a_row: u32,
    /// The last loss of the store that it has taken account of; 0: none.
    pub loss: u64,
    /// How many of its last entries changed nothing that a person sees: take-overs with nothing in flight.
    pub moved_nothing: u64,
    /// Evidence that disagreed with what was known: (operation, what it said), each recorded once.
    pub contradictions: Vec<(OpRef, String)>,
}

/// Claims that are still to be taken (rule 13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepting {
    /// When they are tried again.
    pub due: Time,
    /// How often they were refused.
    pub refused: u32,
}

/// Which way a saga goes. It turns at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards completion.
    Forward,
    /// Towards having done nothing.
    Undo,
}

/// How a saga ended. Terminal absorbs everything except contradictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every effect happened.
    Completed,
    /// No effect is left.
    Compensated,
    /// A person closed it.
    Resolved,
}

/// A step of a saga.
#[derive(Debug, Clone, PartialEq)]
pub struct StepState {
    /// Its turn came: every step it comes after is done.
    pub started: bool,
    /// Forward: it counts as done.
    pub done: bool,
    /// A person skipped it.
    pub skipped: bool,
    /// Undo: nothing of it is left, and the steps before it may be undone.
    pub undone: bool,
    /// What it does.
    pub action: OpState,
    /// How it is undone.
    pub compensation: OpState,
}

/// An operation: everything known of it over all its attempts together.
#[derive(Debug, Clone, PartialEq)]
pub struct OpState {
    /// Its key, payload and facts are fixed, and it may be sent.
    pub enabled: bool,
    /// 1, and one more each time a person asked for a new key.
    pub generation: u32,
    /// Settled, by whom, or `None` while it is not.
    pub settled: Option<Settled>,
    /// How many sends were allowed under this key: the number of the last attempt.
    pub sends: u32,
    /// How many of those attempts were not answered "not executed".
    pub open: u32,
    /// How many attempts used the retry policy.
    pub attempts: u32,
    /// Milliseconds of the budget used: call times, back-offs, `Retry-After` waits.
    pub budget_used_ms: u64,
    /// When its first send was allowed; its key is good for `key_ttl` from then (rule 11).
    pub first_send_at: Option<Time>,
    /// No send of it can have left this node after this time, on this node's clock (rule 6).
    pub quiet_since: Time,
    /// The same of the nodes that had the saga before, by their epochs, as long as nothing has been sent since: each judges by its own clock, and one that
    /// comes back has been watching since it first came.
    pub quiet_before: Vec<(u64, Time)>,
    /// How often it was resent while unknown, in or before verification.
    pub resends: u32,
    /// How often its query was answered, ever: numbers the query calls.
    pub asked: u32,
    /// The serial of its last answer, in progress included.
    pub serial: Option<Value>,
    /// When verification began, if it has.
    pub verify_since: Option<Time>,
    /// The attempt in flight settles an unknown outcome: it uses no attempt and no budget.
    pub verifying: bool,
    /// How often verification was tried.
    pub verified: u32,
    /// Attempts were proved void: a refusal that names no attempt may speak of one of those.
    pub voided: bool,
    /// A person lifted rules 2 and 11 for the next send.
    pub forced: bool,
    /// Since when it has been parked without a break, and how often.
    pub parked: Option<(Time, u32)>,
    /// What happens next.
    pub phase: Phase,
    /// The last reason given by an answer, for people.
    pub reason: Option<String>,
    /// What kind of trouble the last answer was; groups dead letters.
    pub error_class: Option<String>,
}

/// How an operation was settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Executed, with its fact and serial.
    Done {
        /// What it answered.
        fact: Arc<Value>,
        /// The participant's number for it.
        serial: Option<Value>,
    },
    /// Refused for good.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Will never be executed under this key.
    Sealed,
}

/// What is known of an operation, over all its attempts together (semantics, section 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knowledge {
    /// Nothing that was sent can have been executed or still will be.
    Unsent,
    /// At least one attempt may have been, or may yet be, executed.
    Possible,
    /// Executed.
    Done,
    /// Refused for good.
    Rejected,
    /// Will never be executed under this key.
    Sealed,
}

/// What an operation does next. Journalled as the `next` of an entry, so that a later version's policy never changes
/// what an earlier one decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing: not its turn, settled, or no longer wanted.
    Idle,
    /// An attempt is allowed to be on the wire.
    Calling,
    /// To be sent at `due`, by a `sending` entry.
    Send {
        /// When.
        due: Time,
        /// How much of the budget the wait until then uses, in milliseconds.
        waited_ms: u64,
        /// It settles an unknown outcome rather than retries: uses no attempt and no budget.
        verifying: bool,
    },
    /// Unknown: its query is asked at `due`.
    Ask {
        /// When.
        due: Time,
        /// How many queries of this round were answered without settling it.
        n: u32,
    },
    /// Accepted, not finished: its query is asked at `due`, or a callback comes.
    InProgress {
        /// When it is asked again.
        due: Time,
        /// How long the pause before that was, in milliseconds.
        interval_ms: u64,
        /// When waiting ends and it counts as unknown.
        until: Time,
    },
    /// Only verification is left, next at `due`.
    Verify {
        /// When.
        due: Time,
    },
    /// Not sent, for a reason that is not the operation's: tried again at `due`.
    Parked {
        /// When.
        due: Time,
        /// Why.
        reason: ParkReason,
    },
    /// Machines may no longer drive it.
    Dead {
        /// Why, in plain words.
        reason: String,
    },
}

/// Why an operation is parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// A configuration fault (rule 10), with its reason.
    Configuration(String),
    /// The participant's breaker is open.
    BreakerOpen,
    /// The participant's concurrency limit is full.
    LimitFull,
}

impl OpState {
    /// An operation whose turn has not come.
    #[must_use]
    pub fn new() -> Self {
        Self {
            enabled: false,
            generation: 1,
            settled: None,
            sends: 0,
            open: 0,
            attempts: 0,
            budget_used_ms: 0,
            first_send_at: None,
            quiet_since: Time(0),
            quiet_before: Vec::new(),
            resends: 0,
            asked: 0,
            serial: None,
            verify_since: None,
            verifying: false,
            verified: 0,
            voided: false,
            forced: false,
            parked: None,
            phase: Phase::Idle,
            reason: None,
            error_class: None,
        }
    }

    /// What is known of it.
    #[must_use]
    pub fn knowledge(&self) -> Knowledge {
        match &self.settled {
            Some(Settled::Done { .. }) => Knowledge::Done,
            Some(Settled::Rejected { .. }) => Knowledge::Rejected,
            Some(Settled::Sealed) => Knowledge::Sealed,
            None if self.open > 0 => Knowledge::Possible,
            None => Knowledge::Unsent,
        }
    }

    /// Something of it was sent, or may have been until now.
    pub(crate) fn not_quiet_until(&mut self, at: Time) {
        self.quiet_since = at;
        self.quiet_before.clear();
    }

    /// Whether a call that performs it may be on the wire.
    #[must_use]
    pub fn is_calling(&self) -> bool {
        matches!(self.phase, Phase::Calling)
    }

    /// Whether it is being verified, by a resend that is due or under way.
    #[must_use]
    pub fn is_verifying(&self) -> bool {
        let resend = match &self.phase {
            Phase::Calling => self.verifying,
            Phase::Send { verifying, .. } => *verifying,
            Phase::Idle
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => false,
        };
        resend && self.verify_since.is_some()
    }

    /// The earliest moment at which a query whose answer has come by `now` can have been asked; `None` if none was due.
    #[must_use]
    pub fn asked_at(&self, now: Time) -> Option<Time> {
        match &self.phase {
            Phase::Ask { due, .. } | Phase::InProgress { due, .. } | Phase::Verify { due } => {
                Some(*due).filter(|due| *due <= now)
            }
            Phase::Idle | Phase::Calling | Phase::Send { .. } | Phase::Parked { .. } | Phase::Dead { .. } => {
                None
            }
        }
    }

    /// Its fact and serial, if it is done.
    #[must_use]
    pub fn fact(&self) -> Option<(&Value, Option<&Value>)> {
        match &self.settled {
            Some(Settled::Done { fact, serial }) => Some((fact, serial.as_ref())),
            Some(Settled::Rejected { .. } | Settled::Sealed) | None => None,
        }
    }

    /// When it next does something by itself, whatever that is; `None` if nothing is timed.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        match &self.phase {
            Phase::Send { due, .. }
            | Phase::Ask { due, .. }
            | Phase::Verify { due }
            | Phase::Parked { due, .. } => Some(*due),
            Phase::InProgress { due, until, .. } => Some(*due.min(until)),
            Phase::Idle | Phase::Calling | Phase::Dead { .. } => None,
        }
    }

    /// Whether its key is too old to be relied on (rule 11).
    #[must_use]
    pub fn key_expired(&self, op: &Operation, now: Time) -> bool {
        self.first_send_at.is_some_and(|at| now.since_ms(at) > op.key_ttl_ms)
    }
}

impl Default for OpState {
    fn default() -> Self {
        Self::new()
    }
}

impl Saga {
    /// The state of an operation.
    ///
    /// # Panics
    /// If `op` names no step of the definition: callers take it from the definition or have checked it.
    #[must_use]
    pub fn op(&self, op: OpRef) -> &OpState {
        let step = &self.steps[op.step];
        match op.kind {
            OpKind::Action => &step.action,
            OpKind::Compensation => &step.compensation,
        }
    }

    pub(crate) fn op_mut(&mut self, op: OpRef) -> &mut OpState {
        let step = &mut self.steps[op.step];
        match op.kind {
            OpKind::Action => &mut step.action,
            OpKind::Compensation => &mut step.compensation,
        }
    }

    /// The definition of an operation, if the step has one.
    #[must_use]
    pub fn operation(&self, op: OpRef) -> Option<&Operation> {
        let step = self.definition.steps.get(op.step)?;
        match op.kind {
            OpKind::Action => step.action.as_ref(),
            OpKind::Compensation => step.compensation.as_ref(),
        }
    }

    /// Every operation that the definition has, actions first within a step.
    pub fn ops(&self) -> impl Iterator<Item = OpRef> + '_ {
        (0..self.steps.len())
            .flat_map(|step| [OpRef::action(step), OpRef::compensation(step)])
            .filter(|op| self.operation(*op).is_some())
    }

    /// The key under which an operation is sent now.
    #[must_use]
    pub fn key(&self, op: OpRef) -> Key {
        Key::new(&self.id, &self.definition.steps[op.step].name, op.kind, self.op(op).generation)
    }

    /// Whether any call that performs an operation may be on the wire.
    #[must_use]
    pub fn is_calling(&self) -> bool {
        self.steps.iter().any(|step| step.action.is_calling() || step.compensation.is_calling())
    }

    /// Whether the direction is undo, or the saga waits for the pivot to turn (rule 9).
    #[must_use]
    pub fn is_settling(&self, op: OpRef) -> bool {
        match (self.direction, op.kind) {
            (Direction::Undo, OpKind::Action) => true,
            (Direction::Forward, OpKind::Action) => {
                self.undo_pending.is_some() && self.definition.pivot() == Some(op.step)
            }
            (Direction::Undo | Direction::Forward, OpKind::Compensation) => false,
        }
    }
}
