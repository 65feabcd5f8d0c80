//! Status: derived from the state, never set (semantics, section 1).

use crate::saga::{Direction, Ended, Knowledge, OpState, Phase, Saga};
use crate::{OpKind, OpRef, Time, UndoReason};

/// What a saga is doing, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Submitted in a caller's SQL transaction, claims not taken yet.
    Accepting,
    /// Going forward, by itself.
    Running,
    /// Undoing, by itself.
    Compensating,
    /// Only verification is left.
    Unknown,
    /// A person is needed.
    Dead,
    /// Ended: every effect happened.
    Completed,
    /// Ended: no effect is left.
    Compensated,
    /// Ended by a person.
    Resolved,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 8] = [
        Self::Accepting,
        Self::Running,
        Self::Compensating,
        Self::Unknown,
        Self::Dead,
        Self::Completed,
        Self::Compensated,
        Self::Resolved,
    ];

    /// The word used in the API, in lists and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepting => "accepting",
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Unknown => "unknown",
            Self::Dead => "dead",
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::Resolved => "resolved",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether it is terminal.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Completed | Self::Compensated | Self::Resolved => true,
            Self::Accepting | Self::Running | Self::Compensating | Self::Unknown | Self::Dead => false,
        }
    }
}

/// What a step, or one of its operations, is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepStatus {
    /// Its turn has not come.
    Pending,
    /// A call or a query is under way, or about to be.
    Running,
    /// Waits for a time, with a reason.
    Waiting,
    /// Only verification is left.
    Unknown,
    /// Done.
    Done,
    /// Refused for good.
    Rejected,
    /// Being undone.
    Compensating,
    /// Undone.
    Compensated,
    /// Nothing to undo, or left out by a person.
    Skipped,
    /// A person is needed.
    Dead,
}

impl StepStatus {
    /// The word used in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
            Self::Done => "done",
            Self::Rejected => "rejected",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
            Self::Skipped => "skipped",
            Self::Dead => "dead",
        }
    }
}

/// The business state: a name that the definition chose.
pub type BusinessState = String;

/// The status of a saga.
#[must_use]
pub fn status(saga: &Saga) -> Status {
    match saga.ended {
        Some(Ended::Completed) => return Status::Completed,
        Some(Ended::Compensated) => return Status::Compensated,
        Some(Ended::Resolved) => return Status::Resolved,
        None => {}
    }
    if saga.stuck.is_some() {
        return Status::Dead;
    }
    if saga.accepting.is_some() {
        return Status::Accepting;
    }
    let mut verifying = false;
    for op in saga.ops() {
        let state = saga.op(op);
        match &state.phase {
            // A resend that is verification is no progress to count on.
            Phase::Calling | Phase::Send { verifying: true, .. } if state.is_verifying() => verifying = true,
            Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Parked { .. } => {
                return match saga.direction {
                    Direction::Forward => Status::Running,
                    Direction::Undo => Status::Compensating,
                };
            }
            Phase::Verify { .. } => verifying = true,
            Phase::Idle | Phase::Dead { .. } => {}
        }
    }
    if verifying { Status::Unknown } else { Status::Dead }
}

/// The business state of a saga.
#[must_use]
pub fn business_state(saga: &Saga) -> BusinessState {
    let names = &saga.definition.states;
    match status(saga) {
        Status::Completed => {
            let last = saga.last_done.and_then(|step| saga.definition.steps[step].reaches.clone());
            last.unwrap_or_else(|| names.done.clone())
        }
        Status::Compensated => names.canceled.clone(),
        Status::Resolved | Status::Dead => names.manual.clone(),
        Status::Unknown => names.unknown.clone(),
        Status::Compensating => names.canceling.clone(),
        Status::Accepting | Status::Running => saga.reached.clone().unwrap_or_else(|| names.initial.clone()),
    }
}

/// The status of one operation by itself.
#[must_use]
pub fn op_status(state: &OpState) -> StepStatus {
    match state.knowledge() {
        Knowledge::Done => return StepStatus::Done,
        Knowledge::Rejected | Knowledge::Sealed | Knowledge::Unsent | Knowledge::Possible => {}
    }
    match &state.phase {
        Phase::Dead { .. } => StepStatus::Dead,
        Phase::Verify { .. } => StepStatus::Unknown,
        Phase::Calling | Phase::Send { .. } if state.is_verifying() => StepStatus::Unknown,
        Phase::Calling | Phase::Ask { .. } => StepStatus::Running,
        Phase::Send { .. } | Phase::InProgress { .. } | Phase::Parked { .. } => StepStatus::Waiting,
        Phase::Idle => match state.knowledge() {
            Knowledge::Rejected | Knowledge::Sealed => StepStatus::Rejected,
            Knowledge::Possible => StepStatus::Unknown,
            Knowledge::Unsent if state.enabled => StepStatus::Skipped,
            Knowledge::Unsent | Knowledge::Done => StepStatus::Pending,
        },
    }
}

/// The status of a step.
#[must_use]
pub fn step_status(saga: &Saga, index: usize) -> StepStatus {
    let step = &saga.steps[index];
    if step.skipped {
        return StepStatus::Skipped;
    }
    if step.compensation.enabled {
        return match op_status(&step.compensation) {
            StepStatus::Done if step.action.knowledge() == Knowledge::Sealed => StepStatus::Skipped,
            StepStatus::Done => StepStatus::Compensated,
            StepStatus::Running | StepStatus::Pending | StepStatus::Skipped => StepStatus::Compensating,
            other @ (StepStatus::Waiting
            | StepStatus::Unknown
            | StepStatus::Dead
            | StepStatus::Rejected
            | StepStatus::Compensating
            | StepStatus::Compensated) => other,
        };
    }
    if step.undone {
        return match step.action.knowledge() {
            Knowledge::Rejected => StepStatus::Rejected,
            Knowledge::Unsent | Knowledge::Possible | Knowledge::Done | Knowledge::Sealed => {
                StepStatus::Skipped
            }
        };
    }
    if step.done {
        return StepStatus::Done;
    }
    if !step.started {
        return StepStatus::Pending;
    }
    op_status(&step.action)
}

/// Why a saga is where it is: the operation most in need of attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Focus {
    /// Which operation.
    pub op: OpRef,
    /// What kind of trouble, for grouping: `rejected`, `unknown`, `unavailable`, `configuration`, `missing-fact`,
    /// `contradiction`.
    pub error_class: Option<String>,
    /// Why, in plain words.
    pub reason: Option<String>,
    /// When it moves by itself.
    pub due: Option<Time>,
}

/// The operation most in need of attention: a dead one, else an unknown one, else one that waits. `None`: all is well.
#[must_use]
pub fn focus(saga: &Saga) -> Option<Focus> {
    if saga.ended.is_some() {
        return None;
    }
    let rank = |op: &OpRef| match &saga.op(*op).phase {
        Phase::Dead { .. } => Some(0),
        Phase::Verify { .. } => Some(1),
        Phase::Parked { .. } => Some(2),
        Phase::InProgress { .. } | Phase::Send { .. } => Some(3),
        Phase::Ask { .. } => Some(4),
        Phase::Idle | Phase::Calling => None,
    };
    let op = saga.ops().filter(|op| rank(op).is_some()).min_by_key(|op| rank(op))?;
    let state = saga.op(op);
    Some(Focus { op, error_class: state.error_class.clone(), reason: op_reason(state), due: state.due() })
}

/// Why an operation is where it is, in plain words.
#[must_use]
pub fn op_reason(state: &OpState) -> Option<String> {
    match &state.phase {
        Phase::Dead { reason } => Some(reason.clone()),
        Phase::Parked { reason, .. } => Some(match reason {
            crate::saga::ParkReason::Configuration(reason) => reason.clone(),
            crate::saga::ParkReason::BreakerOpen => {
                "the participant failed repeatedly; its breaker is open".into()
            }
            crate::saga::ParkReason::LimitFull => "the participant's concurrency limit is full".into(),
        }),
        Phase::InProgress { .. } => Some("accepted, not finished; waits for its query or a callback".into()),
        Phase::Idle | Phase::Calling | Phase::Send { .. } | Phase::Ask { .. } | Phase::Verify { .. } => {
            state.reason.clone()
        }
    }
}

/// Why a saga is where it is, in plain words; for people.
#[must_use]
pub fn reason(saga: &Saga) -> Option<String> {
    if let Some(stuck) = &saga.stuck {
        return Some(stuck.clone());
    }
    if let Some(focus) = focus(saga)
        && let Some(reason) = focus.reason
    {
        let step = &saga.definition.steps[focus.op.step].name;
        return Some(match focus.op.kind {
            OpKind::Action => format!("{step}: {reason}"),
            OpKind::Compensation => format!("undoing {step}: {reason}"),
        });
    }
    let (why, by) = saga.undo.as_ref().or(saga.undo_pending.as_ref())?;
    let said = by
        .as_ref()
        .filter(|by| !by.reason.is_empty())
        .map(|by| format!(" by {}: {}", by.who, by.reason))
        .unwrap_or_default();
    Some(match why {
        UndoReason::Cancel => format!("cancelled{said}"),
        UndoReason::Deadline => "its deadline passed".into(),
        UndoReason::Rejected(op) | UndoReason::Exhausted(op) => {
            let step = &saga.definition.steps[op.step].name;
            let reason = saga.op(*op).reason.clone().unwrap_or_else(|| "refused".into());
            format!("{step}: {reason}")
        }
    })
}

impl Saga {
    /// Whether the deadline still means something: forward, neither overdue nor pending, and not a person's (rule 9).
    #[must_use]
    pub fn deadline_counts(&self) -> bool {
        self.ended.is_none()
            && self.direction == Direction::Forward
            && !self.overdue
            && self.undo_pending.is_none()
            && status(self) != Status::Dead
    }
}
