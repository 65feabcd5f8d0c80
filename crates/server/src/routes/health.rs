//! Whether the process lives, and whether it can work.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::respond;

/// That the process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    /// Always `alive`.
    status: &'static str,
}

/// Tells that the process lives
///
/// Nothing is looked at: who restarts the server because its store is away helps nobody.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    operation_id = "get_alive",
    security(()),
    responses((status = 200, description = "It lives.", body = Alive))
)]
pub(crate) async fn alive() -> Response {
    respond::json(StatusCode::OK, &Alive { status: "alive" })
}

/// Whether sagas can be taken and moved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// All is well.
    ready: bool,
    /// Why not, a line each.
    reasons: Vec<String>,
}

/// Tells whether sagas can be taken and moved
///
/// The store takes writes, and the node holds its lease.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    operation_id = "get_ready",
    security(()),
    responses(
        (status = 200, description = "Ready.", body = Readiness),
        (status = 503, description = "Not ready.", body = Readiness),
    )
)]
pub(crate) async fn ready(State(app): State<App>) -> Response {
    let health = app.engine().health();
    let ready = health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    respond::json(status, &Readiness { ready, reasons: health.reasons })
}
