//! Callbacks: what participants report of operations that they finished later.
//!
//! A callback is signed by the participant (Standard Webhooks) or carries a token. The signature is checked on the raw
//! body before anything is read from it; whose operation it speaks of is known only then, so it is checked against every
//! participant's secret first, and afterwards it must have been the right one's.

use std::collections::BTreeSet;

use amends_core::{Evidence, OpKind, SagaId, parse_key};
use amends_engine::{EVENT_ID_BYTES_MAX, View};
use amends_participants::signature::{WEBHOOK_ID, WEBHOOK_SIGNATURE};
use axum::extract::{FromRequest as _, Request, State};
use axum::response::Response;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::body::{self, RawBody};
use crate::config::Role;
use crate::json;
use crate::problem::Problem;
use crate::refuse::refuse;
use crate::respond;

/// What became of an operation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Callback {
    /// The operation's key: what the call carried as `Idempotency-Key`, decoded.
    key: String,
    /// Unique to this report; a repeat under the same id is the same report.
    event_id: String,
    /// Whether it was done.
    outcome: Outcome,
    /// `done`: what the participant would have answered; default null.
    #[serde(default, deserialize_with = "json::some_tree")]
    #[schema(value_type = Value)]
    fact: Option<Value>,
    /// `rejected`: why.
    reason: Option<String>,
}

/// What became of an operation, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    Rejected,
}

/// That a callback was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Received<'a> {
    key: &'a str,
    event_id: &'a str,
}

/// Reports what became of an operation
///
/// Answered once it is durable; whether it settles the operation is decided then. A participant with a secret signs it
/// (headers `webhook-id`, `webhook-timestamp`, `webhook-signature`), or it carries a token.
#[utoipa::path(
    post,
    path = "/v1/callbacks",
    tag = "callbacks",
    operation_id = "post_callback",
    request_body = Callback,
    responses((status = 202, description = "It is durable.", body = Received))
)]
pub(crate) async fn post(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let claimed = Claimed::of(&app, &parts)?;
    let request = Request::from_parts(parts, body);
    let headers = request.headers().clone();
    let RawBody(bytes) = RawBody::from_request(request, &app).await?;
    let sender = claimed.verify(&app, &headers, &bytes)?;
    body::media(&headers)?.json()?;
    let callback: Callback = json::read(&bytes)?;
    let (saga, step, kind) = check(&callback)?;
    sender.may_speak_of(&app, &saga, step, kind).await?;
    let evidence = evidence(callback.outcome, callback.fact, callback.reason)?;
    match app.engine().callback(&callback.key, &callback.event_id, evidence).await {
        Ok(()) => {
            let received = Received { key: &callback.key, event_id: &callback.event_id };
            Ok(respond::json(StatusCode::ACCEPTED, &received))
        }
        Err(refused) => Err(refuse(&app, refused).await),
    }
}

/// By what a request claims to be allowed, before its body is there.
enum Claimed {
    /// A signature, yet to be checked.
    Signature,
    /// A token, or a server without tokens: already checked.
    Admitted { by_token: bool },
}

impl Claimed {
    fn of(app: &App, parts: &Parts) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let is_signed = headers.contains_key(WEBHOOK_SIGNATURE) || headers.contains_key(WEBHOOK_ID);
        let has_token = !app.access().is_open() && headers.contains_key(AUTHORIZATION);
        if is_signed && !has_token {
            return Ok(Self::Signature);
        }
        app.access().admit(parts, Role::Operator)?;
        Ok(Self::Admitted { by_token: has_token })
    }

    fn verify(self, app: &App, headers: &HeaderMap, body: &[u8]) -> Result<Sender, Problem> {
        match self {
            Self::Signature => match app.participants().signed_by(headers, body) {
                Ok(names) => Ok(Sender::Participants(names)),
                Err(why) => Err(Problem::unauthenticated(why.to_string())),
            },
            Self::Admitted { by_token: true } => Ok(Sender::Token),
            Self::Admitted { by_token: false } => Ok(Sender::Anybody),
        }
    }
}

/// Who a callback is from.
enum Sender {
    /// One of these participants: its secret fits the signature.
    Participants(BTreeSet<String>),
    /// Whoever has a token.
    Token,
    /// Somebody on this machine.
    Anybody,
}

impl Sender {
    /// A participant speaks of its own operations only; nobody speaks unsigned for one that has a secret.
    async fn may_speak_of(&self, app: &App, saga: &SagaId, step: &str, kind: OpKind) -> Result<(), Problem> {
        let fits = |participant: &str| match self {
            Self::Participants(names) => names.contains(participant),
            Self::Token => true,
            Self::Anybody => !app.participants().has_secret(participant),
        };
        if let Self::Token = self {
            return Ok(());
        }
        match participant(app, saga, step, kind).await? {
            Some(participant) if !fits(&participant) => Err(Problem::unauthenticated(format!(
                "reports on this operation must be signed with the secret of `{participant}`, or carry a token"
            ))),
            // What does not exist is refused by the engine, which tells what it is.
            Some(_) | None => Ok(()),
        }
    }
}

/// The participant that an operation goes to. `None`: there is no such operation.
async fn participant(app: &App, saga: &SagaId, step: &str, kind: OpKind) -> Result<Option<String>, Problem> {
    let definition = match app.engine().saga(saga).await {
        Ok(View::Whole(saga)) => saga.definition.clone(),
        Ok(View::Row { row, .. }) => {
            match app.engine().definition(&row.saga, Some(row.definition_version)).await {
                Ok(registered) => registered.definition,
                Err(refused) => return Err(refuse(app, refused).await),
            }
        }
        Err(refused) => return Err(refuse(app, refused).await),
    };
    let step = definition.steps.iter().find(|candidate| candidate.name == step);
    let operation = step.and_then(|step| match kind {
        OpKind::Action => step.action.as_ref(),
        OpKind::Compensation => step.compensation.as_ref(),
    });
    Ok(operation.map(|operation| operation.to.clone()))
}

fn check(callback: &Callback) -> Result<(SagaId, &str, OpKind), Problem> {
    let id = &callback.event_id;
    if id.is_empty() || id.len() > EVENT_ID_BYTES_MAX || id.chars().any(char::is_control) {
        let detail =
            format!("`event_id` must have 1 to {EVENT_ID_BYTES_MAX} bytes and no control characters");
        return Err(Problem::malformed(detail).at("event_id"));
    }
    let (saga, step, kind, _) = parse_key(&callback.key).ok_or_else(|| {
        Problem::malformed("`key` is no operation's key, such as order:789:charge:action").at("key")
    })?;
    Ok((saga, step, kind))
}

fn evidence(outcome: Outcome, fact: Option<Value>, reason: Option<String>) -> Result<Evidence, Problem> {
    match (outcome, fact, reason) {
        (Outcome::Done, fact, None) => Ok(Evidence::Done { fact: fact.unwrap_or(Value::Null) }),
        (Outcome::Rejected, None, reason) => {
            let reason = reason.unwrap_or_else(|| "rejected, without a reason".to_owned());
            Ok(Evidence::Rejected { reason, explicit: true })
        }
        (Outcome::Done, _, Some(_)) => {
            Err(Problem::malformed("`reason` belongs to `rejected`; leave it out").at("reason"))
        }
        (Outcome::Rejected, Some(_), _) => {
            Err(Problem::malformed("`fact` belongs to `done`; leave it out").at("fact"))
        }
    }
}
