//! What people do to a saga.

use std::sync::Arc;

use amends_core::{By, OpKind, Person, PersonAction, SagaId};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::auth::Operator;
use crate::body::{JsonBody, OptionalJsonBody};
use crate::dto::SagaDto;
use crate::extract::{IfMatch, SagaPath};
use crate::json;
use crate::problem::{Kind, Problem};
use crate::refuse::refuse;
use crate::respond;

/// The most bytes of a reason: it is kept for ever.
const REASON_BYTES_MAX: usize = 4096;

/// A cancel.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// Why; optional.
    reason: Option<String>,
}

/// A person's action on a saga.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Action {
    /// Why: it becomes part of the audit record. Required.
    reason: Option<String>,
    /// The step. Required, but for `close`, which ignores it.
    step: Option<String>,
    /// `retry`, `resolve`: which of the step's operations; default the one not settled, else the dead one.
    operation: Option<Operation>,
    /// `resolve`, required: whether it was executed.
    outcome: Option<Outcome>,
    /// `resolve` as done: what the participant would have answered; default null.
    #[serde(default, deserialize_with = "json::some_tree")]
    #[schema(value_type = Value)]
    fact: Option<Value>,
    /// `retry`: also where a repeat could be executed twice, or the key is too old.
    force: Option<bool>,
    /// `retry`: under a new key; only for what was rejected or sealed for good.
    new_key: Option<bool>,
}

/// One of a step's operations.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Action,
    Compensation,
}

/// What a person found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    NotDone,
}

impl Action {
    /// The reason, which may not be blank.
    fn reason(&self) -> Result<String, Problem> {
        let reason = checked_reason(self.reason.as_deref().unwrap_or_default())?;
        if reason.trim().is_empty() {
            return Err(Problem::new(
                Kind::ReasonRequired,
                "say why in `reason`: it becomes part of the audit record",
            )
            .at("reason"));
        }
        Ok(reason)
    }

    fn step(&mut self) -> Result<String, Problem> {
        self.step.take().ok_or_else(|| Problem::malformed("name the step in `step`").at("step"))
    }

    fn operation(&self) -> Option<OpKind> {
        self.operation.map(|operation| match operation {
            Operation::Action => OpKind::Action,
            Operation::Compensation => OpKind::Compensation,
        })
    }

    /// Refuses members that mean nothing to this action: whoever sends one expects something else to happen.
    fn only(&self, action: &str, members: &[&str]) -> Result<(), Problem> {
        let given = [
            ("operation", self.operation.is_some()),
            ("outcome", self.outcome.is_some()),
            ("fact", self.fact.is_some()),
            ("force", self.force.is_some()),
            ("new_key", self.new_key.is_some()),
        ];
        match given.into_iter().find(|(name, given)| *given && !members.contains(name)) {
            Some((name, _)) => {
                Err(Problem::malformed(format!("`{name}` means nothing to {action}; leave it out")).at(name))
            }
            None => Ok(()),
        }
    }
}

fn checked_reason(reason: &str) -> Result<String, Problem> {
    if reason.len() > REASON_BYTES_MAX {
        return Err(
            Problem::malformed(format!("`reason` has more than {REASON_BYTES_MAX} bytes")).at("reason")
        );
    }
    Ok(reason.to_owned())
}

/// Cancels a saga
///
/// Undoes what was done. Past the point of no return it is refused; while the pivot may have been executed it waits until
/// that is known. Already undoing: the same answer again.
#[utoipa::path(
    post,
    path = "/v1/sagas/{id}/cancel",
    tag = "actions",
    operation_id = "cancel_saga",
    params(
        ("id" = String, Path, description = "The business id, percent-encoded."),
        ("If-Match" = Option<String>, Header, description = "The version you saw; optional."),
    ),
    request_body = Option<Cancel>,
    responses((status = 200, description = "The saga as it is then.", body = SagaDto))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    Operator(who): Operator,
    SagaPath(id): SagaPath,
    IfMatch(version): IfMatch,
    OptionalJsonBody(cancel): OptionalJsonBody<Cancel>,
) -> Result<Response, Problem> {
    let reason = checked_reason(cancel.reason.as_deref().unwrap_or_default())?;
    act(&app, id, who, version, reason, PersonAction::Cancel).await
}

/// Tries an operation again
///
/// Now, with a new budget, under the same key. Requires `If-Match` and a reason.
#[utoipa::path(
    post,
    path = "/v1/sagas/{id}/retry",
    tag = "actions",
    operation_id = "retry_step",
    params(
        ("id" = String, Path, description = "The business id, percent-encoded."),
        ("If-Match" = String, Header, description = "The version you saw."),
    ),
    request_body = Action,
    responses((status = 200, description = "The saga as it is then.", body = SagaDto))
)]
pub(crate) async fn retry(
    State(app): State<App>,
    Operator(who): Operator,
    SagaPath(id): SagaPath,
    IfMatch(version): IfMatch,
    JsonBody(mut body): JsonBody<Action>,
) -> Result<Response, Problem> {
    body.only("retry", &["operation", "force", "new_key"])?;
    let reason = body.reason()?;
    let action = PersonAction::Retry {
        step: body.step()?,
        operation: body.operation(),
        force: body.force.unwrap_or(false),
        new_key: body.new_key.unwrap_or(false),
    };
    act(&app, id, who, version, reason, action).await
}

/// Says what became of an operation
///
/// Settles what may have been executed, or is dead, with you as the source. Requires `If-Match` and a reason.
#[utoipa::path(
    post,
    path = "/v1/sagas/{id}/resolve",
    tag = "actions",
    operation_id = "resolve_step",
    params(
        ("id" = String, Path, description = "The business id, percent-encoded."),
        ("If-Match" = String, Header, description = "The version you saw."),
    ),
    request_body = Action,
    responses((status = 200, description = "The saga as it is then.", body = SagaDto))
)]
pub(crate) async fn resolve(
    State(app): State<App>,
    Operator(who): Operator,
    SagaPath(id): SagaPath,
    IfMatch(version): IfMatch,
    JsonBody(mut body): JsonBody<Action>,
) -> Result<Response, Problem> {
    body.only("resolve", &["operation", "outcome", "fact"])?;
    let reason = body.reason()?;
    let step = body.step()?;
    let done = match (body.outcome, body.fact.take()) {
        (Some(Outcome::Done), fact) => Some(fact.unwrap_or(Value::Null)),
        (Some(Outcome::NotDone), None) => None,
        (Some(Outcome::NotDone), Some(_)) => {
            return Err(
                Problem::malformed("`fact` is what was done; leave it out with `not_done`").at("fact")
            );
        }
        (None, _) => {
            return Err(
                Problem::malformed("say what became of it in `outcome`: `done` or `not_done`").at("outcome")
            );
        }
    };
    let action = PersonAction::Resolve { step, operation: body.operation(), done };
    act(&app, id, who, version, reason, action).await
}

/// Leaves a step out
///
/// Only one that was not executed, and never the pivot. Requires `If-Match` and a reason.
#[utoipa::path(
    post,
    path = "/v1/sagas/{id}/skip",
    tag = "actions",
    operation_id = "skip_step",
    params(
        ("id" = String, Path, description = "The business id, percent-encoded."),
        ("If-Match" = String, Header, description = "The version you saw."),
    ),
    request_body = Action,
    responses((status = 200, description = "The saga as it is then.", body = SagaDto))
)]
pub(crate) async fn skip(
    State(app): State<App>,
    Operator(who): Operator,
    SagaPath(id): SagaPath,
    IfMatch(version): IfMatch,
    JsonBody(mut body): JsonBody<Action>,
) -> Result<Response, Problem> {
    body.only("skip", &[])?;
    let reason = body.reason()?;
    let action = PersonAction::Skip { step: body.step()? };
    act(&app, id, who, version, reason, action).await
}

/// Ends a saga as it is
///
/// Only one that is unknown or dead. Its claims are released; its last entry lists what was left. Requires `If-Match` and a reason.
#[utoipa::path(
    post,
    path = "/v1/sagas/{id}/close",
    tag = "actions",
    operation_id = "close_saga",
    params(
        ("id" = String, Path, description = "The business id, percent-encoded."),
        ("If-Match" = String, Header, description = "The version you saw."),
    ),
    request_body = Action,
    responses((status = 200, description = "The saga as it is then.", body = SagaDto))
)]
pub(crate) async fn close(
    State(app): State<App>,
    Operator(who): Operator,
    SagaPath(id): SagaPath,
    IfMatch(version): IfMatch,
    JsonBody(body): JsonBody<Action>,
) -> Result<Response, Problem> {
    body.only("close", &[])?;
    let reason = body.reason()?;
    act(&app, id, who, version, reason, PersonAction::Close).await
}

async fn act(
    app: &App,
    id: SagaId,
    who: Arc<str>,
    version: Option<u64>,
    reason: String,
    action: PersonAction,
) -> Result<Response, Problem> {
    let person = Person { by: By { who: who.to_string(), reason }, version, action };
    match app.engine().act(&id, person).await {
        Ok(view) => Ok(respond::saga(StatusCode::OK, &view)),
        Err(refused) => {
            let problem = refuse(app, refused).await;
            Ok(with_current_version(app, &id, problem).await?)
        }
    }
}

/// Whoever saw a version that is no longer the last is told the last one.
async fn with_current_version(app: &App, id: &SagaId, problem: Problem) -> Result<Response, Problem> {
    if problem.kind() != Kind::StaleVersion {
        return Err(problem);
    }
    Err(match app.engine().saga(id).await {
        Ok(view) => problem.with_version(SagaDto::new(&view).version()),
        Err(_) => problem,
    })
}
