//! The saga object.

use std::borrow::Cow;

use amends_core::status::{self, Status, StepStatus};
use amends_core::{Direction, Knowledge, OpState, Saga, Settled};
use amends_engine::View;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Stamp;

/// A saga.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Saga)]
pub(crate) struct SagaDto<'a> {
    /// The business id.
    id: &'a str,
    /// Name of its definition.
    saga: &'a str,
    /// Number of its last journal entry; also the ETag.
    version: u64,
    /// Version of its definition.
    definition_version: u64,
    /// Digest of its definition.
    digest: &'a str,
    /// `accepting`, `running`, `compensating`, `unknown`, `dead`, `completed`, `compensated` or `resolved`.
    status: &'a str,
    /// `forward` or `undo`; null if only its list row is left.
    direction: Option<&'static str>,
    /// What the definition calls the state it is in.
    #[schema(value_type = String)]
    business_state: Cow<'a, str>,
    /// What it was submitted with; null if retention removed it.
    #[schema(value_type = Value)]
    input: &'a Value,
    /// Its deadline passed when it could no longer be undone.
    overdue: bool,
    /// Why it is where it is, in plain words; null if there is nothing to say.
    reason: Option<String>,
    /// Its steps in the definition's order; empty if only its list row is left.
    steps: Vec<StepDto<'a>>,
    /// The resources it holds until it ends.
    claims: &'a [String],
    /// When it was submitted.
    created_at: Stamp,
    /// When its last entry was written.
    updated_at: Stamp,
}

/// A step: the members from `knowledge` to `due_at` speak of its action.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Step)]
pub(crate) struct StepDto<'a> {
    name: &'a str,
    /// `pending`, `running`, `waiting`, `unknown`, `done`, `rejected`, `compensating`, `compensated`, `skipped` or `dead`.
    status: &'static str,
    #[serde(flatten)]
    action: Facts<'a>,
    /// The same of its compensation; null if the step has none.
    compensation: Option<CompensationDto<'a>>,
}

/// The compensation of a step.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Compensation)]
pub(crate) struct CompensationDto<'a> {
    /// `pending`, `running`, `waiting`, `unknown`, `done`, `rejected`, `skipped` or `dead`.
    status: &'static str,
    #[serde(flatten)]
    facts: Facts<'a>,
}

/// What is known of an operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Operation)]
pub(crate) struct Facts<'a> {
    /// `unsent`, `possible`, `done`, `rejected` or `sealed`: over all its attempts together.
    knowledge: &'static str,
    /// How many attempts used its retry policy.
    attempts: u32,
    /// What it answered, once done; else null.
    #[schema(value_type = Value)]
    fact: Option<&'a Value>,
    /// The participant's number for it, if known.
    #[schema(value_type = Value)]
    serial: Option<&'a Value>,
    /// Why it is where it is, in plain words.
    reason: Option<String>,
    /// When it next does something by itself.
    due_at: Option<Stamp>,
}

/// What stands for the input of a saga whose journal is gone.
static GONE: Value = Value::Null;

impl<'a> SagaDto<'a> {
    /// Converts.
    pub(crate) fn new(view: &'a View) -> Self {
        match view {
            View::Whole(saga) => Self::whole(saga),
            View::Row { row, why } => Self {
                id: row.id.as_str(),
                saga: &row.saga,
                version: row.seq,
                definition_version: row.definition_version,
                digest: &row.digest,
                status: &row.status,
                direction: None,
                business_state: Cow::Borrowed(&row.business_state),
                input: &GONE,
                overdue: row.overdue,
                reason: Some(
                    row.reason.as_ref().map_or_else(|| why.clone(), |reason| format!("{reason} ({why})")),
                ),
                steps: Vec::new(),
                claims: &[],
                created_at: Stamp(row.created_at),
                updated_at: Stamp(row.updated_at),
            },
        }
    }

    fn whole(saga: &'a Saga) -> Self {
        let status = status::status(saga);
        Self {
            id: saga.id.as_str(),
            saga: &saga.definition.name,
            version: saga.seq,
            definition_version: saga.definition.version,
            digest: &saga.definition.digest,
            status: status.as_str(),
            direction: Some(match saga.direction {
                Direction::Forward => "forward",
                Direction::Undo => "undo",
            }),
            business_state: Cow::Owned(status::business_state(saga)),
            input: &saga.input,
            overdue: saga.overdue,
            reason: status::reason(saga),
            steps: (0..saga.steps.len()).map(|index| step(saga, index)).collect(),
            claims: &saga.claims,
            created_at: Stamp(saga.created_at),
            updated_at: Stamp(saga.updated_at),
        }
    }

    /// About how many bytes it has in JSON, so that it need not be moved while it is written.
    pub(crate) fn bytes_about(&self) -> usize {
        1024 + 512 * self.steps.len()
    }

    /// The version, for the ETag.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

fn step(saga: &Saga, index: usize) -> StepDto<'_> {
    let definition = &saga.definition.steps[index];
    let state = &saga.steps[index];
    StepDto {
        name: &definition.name,
        status: status::step_status(saga, index).as_str(),
        action: facts(&state.action),
        compensation: definition.compensation.as_ref().map(|_| CompensationDto {
            status: status::op_status(&state.compensation).as_str(),
            facts: facts(&state.compensation),
        }),
    }
}

fn facts(state: &OpState) -> Facts<'_> {
    let (fact, serial) = match state.fact() {
        Some((fact, serial)) => (Some(fact), serial.or(state.serial.as_ref())),
        None => (None, state.serial.as_ref()),
    };
    Facts {
        knowledge: match state.knowledge() {
            Knowledge::Unsent => "unsent",
            Knowledge::Possible => "possible",
            Knowledge::Done => "done",
            Knowledge::Rejected => "rejected",
            Knowledge::Sealed => "sealed",
        },
        attempts: state.attempts,
        fact,
        serial,
        reason: reason(state),
        due_at: state.due().map(Stamp),
    }
}

/// Why an operation is where it is. What is done needs no reason, whatever went wrong on the way.
fn reason(state: &OpState) -> Option<String> {
    match &state.settled {
        Some(Settled::Done { .. }) => None,
        Some(Settled::Rejected { reason }) => status::op_reason(state).or_else(|| Some(reason.clone())),
        Some(Settled::Sealed) | None => status::op_reason(state),
    }
}

/// The status of a view, and the step it is at: what others are told of a saga that holds a resource they want.
pub(crate) fn place(view: &View) -> (String, Option<String>) {
    match view {
        View::Whole(saga) => (status::status(saga).as_str().to_owned(), current_step(saga)),
        View::Row { row, .. } => (row.status.clone(), row.step.clone()),
    }
}

/// The step most in need of attention, else the one under way.
fn current_step(saga: &Saga) -> Option<String> {
    let focus = status::focus(saga).map(|focus| focus.op.step);
    let moving = || {
        (0..saga.steps.len()).find(|index| match status::step_status(saga, *index) {
            StepStatus::Running
            | StepStatus::Waiting
            | StepStatus::Unknown
            | StepStatus::Compensating
            | StepStatus::Rejected
            | StepStatus::Dead => true,
            StepStatus::Pending | StepStatus::Done | StepStatus::Compensated | StepStatus::Skipped => false,
        })
    };
    focus.or_else(moving).map(|index| saga.definition.steps[index].name.clone())
}

/// Whether a saga of this status waits for somebody else than itself to settle it.
pub(crate) fn is_frozen(status: &str) -> bool {
    match Status::parse(status) {
        Some(Status::Unknown | Status::Dead) => true,
        Some(
            Status::Accepting
            | Status::Running
            | Status::Compensating
            | Status::Completed
            | Status::Compensated
            | Status::Resolved,
        )
        | None => false,
    }
}
