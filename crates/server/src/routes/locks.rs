//! Lease locks for programs in any language. The resource that a lock protects has to check the token: `docs/locks.md`.

use amends_core::SagaId;
use amends_core::definition::{parse_duration, show_duration};
use amends_engine::{Refused, View};
use amends_store::Kind as StoreKind;
use amends_store::locks::{
    Acquired, Ask, Because, Hold, Label, LockName, Lost, Malformed, Owner, Release, Renewal, TOKEN_MAX, Ttl,
};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::auth::{Operator, Viewer};
use crate::body::JsonBody;
use crate::dto::{Lease, LeaseRenewed, LockDto, LockHeld, LockReleased};
use crate::extract::{NamePath, NoParams, Params, saga_id};
use crate::problem::{Kind, Problem};
use crate::refuse::refuse;
use crate::respond;

/// How long a renewed lease lasts if the request says nothing of it: a renewal never takes anything away.
const RENEWAL_DEFAULT: &str = "30s";

/// How long a release waits for its saga to be taken up from a transaction of the caller's: longer than the engine's scan.
const COMMITTED_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// A request for a lock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acquisition {
    /// How long the lease holds without renewal, such as `30s`: 100ms to 24h.
    ttl: String,
    /// Who asks: a random text, new for each acquisition, 1 to 128 bytes. The same one again gets the same token, so that a request can be
    /// sent again. Default: the server makes one, and a request whose answer was lost leaves the lock held until its lease has ended.
    owner: Option<String>,
}

/// A renewal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prolongation {
    /// The token that was given.
    token: u64,
    /// The owner that acquired it; left out, the token alone is checked.
    owner: Option<String>,
    /// How long the lease holds from now on; default `lease`, else `30s`.
    ttl: Option<String>,
    /// The lease as it was given; for who sends back what was answered.
    lease: Option<String>,
}

/// A release. It needs `saga` or `abandon`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Letting {
    /// The token that was given.
    token: u64,
    /// The owner that acquired it; left out, the token alone is checked.
    owner: Option<String>,
    /// Id of the saga that recovers what was done under the lock. It must be durable, and cover the lock: its id or one of its claims is the
    /// lock's name.
    saga: Option<String>,
    /// Why nothing has to be recovered.
    abandon: Option<String>,
    /// Ignored; for who sends back what was answered.
    #[schema(value_type = Option<String>)]
    #[serde(rename = "lease")]
    _lease: Option<Value>,
}

/// Acquires a lock
///
/// 409 `wrong-state` if somebody else holds it; the member `lock` says who, since when and for how long at least. Count the lease on your own
/// clock from before you sent the request, and stop a little earlier. Send the token with every write that the lock protects.
#[utoipa::path(
    post,
    path = "/v1/locks/{name}",
    tag = "locks",
    operation_id = "acquire_lock",
    params(("name" = String, Path, description = "The lock's name, percent-encoded: UTF-8, 1 to 256 bytes, no control characters.")),
    request_body = Acquisition,
    responses(
        (status = 201, description = "It is yours.", body = Lease),
        (status = 200, description = "It was yours already.", body = Lease),
    )
)]
pub(crate) async fn acquire(
    State(app): State<App>,
    Operator(who): Operator,
    NamePath(name): NamePath,
    JsonBody(body): JsonBody<Acquisition>,
) -> Result<Response, Problem> {
    let mut ask = Ask::new(lock_name(name)?, ttl("ttl", &body.ttl)?);
    if let Some(owner) = body.owner {
        ask.owner = Owner::new(owner).map_err(malformed)?;
    }
    // A token's name is chosen by who configured it: one that is too long for a label is left out, not refused.
    ask.label = Label::new(&*who).unwrap_or_default();
    let mut answer = app.locks().acquire(&ask).await;
    if answer.as_ref().is_err_and(|error| error.kind == StoreKind::Indeterminate) {
        // The same request again is the same acquisition, and the caller could not make it: it does not know the owner.
        answer = app.locks().acquire(&ask).await;
    }
    match answer {
        Ok(Acquired::Held(granted)) => {
            app.lock_counts().count("acquire", if granted.again { "again" } else { "held" });
            let status = if granted.again { StatusCode::OK } else { StatusCode::CREATED };
            Ok(respond::json(status, &Lease::new(&ask, granted)))
        }
        Ok(Acquired::Busy(busy)) => {
            app.lock_counts().count("acquire", "busy");
            let held = LockHeld::from(busy);
            let detail = format!(
                "{} is held by {} since {}; try again in {}, or later if it is renewed",
                ask.name,
                held.holder_or_nobody(),
                held.since(),
                held.lease()
            );
            Err(Problem::new(Kind::WrongState, detail).with_lock(held))
        }
        Err(error) => Err(unreachable(&app, "acquire", error).await),
    }
}

/// Renews a lease
///
/// To at least `ttl` from now. 409 `wrong-state` if it is over or another owner's: stop what you do under the lock. Renew from the work itself, when
/// a third of the lease has passed.
#[utoipa::path(
    put,
    path = "/v1/locks/{name}",
    tag = "locks",
    operation_id = "renew_lock",
    params(("name" = String, Path, description = "The lock's name, percent-encoded.")),
    request_body = Prolongation,
    responses((status = 200, description = "It goes on.", body = LeaseRenewed))
)]
pub(crate) async fn renew(
    State(app): State<App>,
    _: Operator,
    NamePath(name): NamePath,
    JsonBody(body): JsonBody<Prolongation>,
) -> Result<Response, Problem> {
    let length = match (&body.ttl, &body.lease) {
        (Some(text), _) => ttl("ttl", text)?,
        (None, Some(text)) => ttl("lease", text)?,
        (None, None) => ttl("ttl", RENEWAL_DEFAULT)?,
    };
    let hold = hold_of(name, body.owner, body.token)?;
    match app.locks().renew(&hold, length).await {
        Ok(Renewal::Renewed { left_ms }) => {
            app.lock_counts().count("renew", "renewed");
            let renewed = LeaseRenewed {
                name: hold.name.to_string(),
                token: hold.token,
                lease: show_duration(left_ms),
            };
            Ok(respond::json(StatusCode::OK, &renewed))
        }
        Ok(Renewal::Lost(lost)) => {
            app.lock_counts().count("renew", "lost");
            Err(lost_problem(&hold, lost))
        }
        Ok(Renewal::OwnerMismatch) => {
            app.lock_counts().count("renew", "owner_mismatch");
            Err(owner_problem(&hold))
        }
        Err(error) => Err(unreachable(&app, "renew", error).await),
    }
}

/// Releases a lock
///
/// Needs the saga that recovers what was done under it, or why nothing has to be recovered, so that no half-done work is left behind an open
/// lock. 409 `wrong-state` if the lease was lost or is another owner's; the attempt is recorded in the lock either way. Sent again it is answered
/// as the first time.
#[utoipa::path(
    delete,
    path = "/v1/locks/{name}",
    tag = "locks",
    operation_id = "release_lock",
    params(("name" = String, Path, description = "The lock's name, percent-encoded.")),
    request_body = Letting,
    responses((status = 200, description = "It is free.", body = LockReleased))
)]
pub(crate) async fn release(
    State(app): State<App>,
    Operator(who): Operator,
    NamePath(name): NamePath,
    JsonBody(body): JsonBody<Letting>,
) -> Result<Response, Problem> {
    let hold = hold_of(name, body.owner, body.token)?;
    let because = match (body.saga, body.abandon) {
        (Some(id), None) => {
            let id = saga_id(id, "saga")?;
            check_covers(&app, &id, &hold.name).await?;
            Because::Saga(id)
        }
        (None, Some(reason)) if !reason.trim().is_empty() => Because::abandon(reason).map_err(malformed)?,
        (None, reason) => {
            let detail = "say which saga recovers in `saga`, or why nothing has to be recovered in `abandon`";
            let problem = Problem::new(Kind::ReasonRequired, detail);
            return Err(if reason.is_some() { problem.at("abandon") } else { problem });
        }
        (Some(_), Some(_)) => {
            let detail =
                "either a saga recovers or there is nothing to recover: give `saga` or `abandon`, not both";
            return Err(Problem::malformed(detail).at("abandon"));
        }
    };
    let released = app.locks().release(&hold, &because).await;
    let (kind, why) = because.parts();
    let (lock, token) = (&hold.name, hold.token);
    match released {
        Ok(outcome) => {
            tracing::info!(%lock, token, outcome = outcome.as_str(), %who, kind, why, "a release");
            app.lock_counts().count("release", outcome.as_str());
            match outcome {
                Release::Released => {
                    Ok(respond::json(StatusCode::OK, &LockReleased::new(&hold, outcome, &because)))
                }
                Release::LeaseLost(lost) => Err(lost_problem(&hold, lost)),
                Release::OwnerMismatch => Err(owner_problem(&hold)),
            }
        }
        Err(error) => {
            tracing::warn!(%lock, token, outcome = "unreachable", %who, kind, why, "a release: {error}");
            Err(unreachable(&app, "release", error).await)
        }
    }
}

/// Shows a lock
///
/// One that was never used is free.
#[utoipa::path(
    get,
    path = "/v1/locks/{name}",
    tag = "locks",
    operation_id = "get_lock",
    params(("name" = String, Path, description = "The lock's name, percent-encoded.")),
    responses((status = 200, description = "The lock.", body = LockDto))
)]
pub(crate) async fn show(
    State(app): State<App>,
    _: Viewer,
    NamePath(name): NamePath,
    _: Params<NoParams>,
) -> Result<Response, Problem> {
    let name = lock_name(name)?;
    match app.locks().show(&name).await {
        Ok(view) => Ok(respond::json(StatusCode::OK, &LockDto::new(&name, view))),
        Err(error) => Err(unreachable(&app, "show", error).await),
    }
}

/// Refuses a saga that does not exist, or does not cover the lock: of which neither the id nor a claim is the lock's name. Both are held by one
/// saga at a time, so that whoever comes next under the lock meets that saga.
async fn check_covers(app: &App, id: &SagaId, name: &LockName) -> Result<(), Problem> {
    // It may have been committed a moment ago, in the caller's own database.
    let view = match app.engine().saga_soon(id, COMMITTED_WITHIN).await {
        Ok(view) => view,
        Err(refused) => return Err(refuse(app, refused).await),
    };
    let claims = match &view {
        View::Whole(saga) => saga.claims.as_slice(),
        View::Row { .. } => &[],
    };
    if id.as_str() == name.as_str() || claims.iter().any(|claim| claim == name.as_str()) {
        return Ok(());
    }
    let detail = match view {
        View::Whole(_) => format!(
            "{id} does not cover the lock {name}: neither its id nor one of its claims is that name; add it to `claims` of its definition"
        ),
        View::Row { why, .. } => {
            format!("whether {id} covers the lock {name} cannot be told ({why}); give a reason in `abandon`")
        }
    };
    Err(Problem::new(Kind::WrongState, detail).at("saga"))
}

fn lock_name(name: String) -> Result<LockName, Problem> {
    LockName::new(name).map_err(malformed)
}

fn ttl(field: &'static str, text: &str) -> Result<Ttl, Problem> {
    let ms = parse_duration(text).map_err(|bad| Problem::malformed(format!("`{field}`: {bad}")).at(field))?;
    Ttl::from_ms(ms).map_err(|bad| Problem::malformed(bad.message).at(field))
}

fn hold_of(name: String, owner: Option<String>, token: u64) -> Result<Hold, Problem> {
    if token > TOKEN_MAX {
        return Err(Problem::malformed(format!("`token` is above {TOKEN_MAX}: it is none that was given"))
            .at("token"));
    }
    Ok(Hold { name: lock_name(name)?, owner: owner.map(Owner::new).transpose().map_err(malformed)?, token })
}

fn malformed(bad: Malformed) -> Problem {
    Problem::malformed(bad.message).at(bad.field)
}

fn lost_problem(hold: &Hold, lost: Lost) -> Problem {
    let Hold { name, token, .. } = hold;
    let detail = match lost {
        Lost::Expired => format!("the lease of {name} under token {token} has ended"),
        Lost::Released => format!("{name} was released under token {token}"),
        Lost::Taken => format!("{name} was acquired again since token {token} was given"),
        Lost::Unknown => format!("token {token} of {name} was never given, as far as is known here"),
    };
    let next = "stop what you do under it, and acquire it anew if there is more to do";
    Problem::new(Kind::WrongState, format!("{detail}; {next}")).with_lost(lost.as_str())
}

fn owner_problem(hold: &Hold) -> Problem {
    let detail = format!(
        "{} has another owner under token {}: check that `owner` and `token` come from one answer",
        hold.name, hold.token
    );
    Problem::new(Kind::WrongState, detail).with_lost("owner_mismatch")
}

async fn unreachable(app: &App, call: &'static str, error: amends_store::Error) -> Problem {
    app.lock_counts().count(call, "unreachable");
    refuse(app, Refused::Store(error)).await
}
