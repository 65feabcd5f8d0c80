//! Counts over all sagas.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use crate::App;
use crate::auth::Viewer;
use crate::dto::StatsDto;
use crate::extract::{NoParams, Params};
use crate::problem::Problem;
use crate::refuse::refuse;
use crate::respond;

/// Counts sagas
///
/// Read from the store at most once a second; `as_of` says when.
#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = "stats",
    operation_id = "get_stats",
    responses((status = 200, description = "The counts.", body = StatsDto))
)]
pub(crate) async fn get(State(app): State<App>, _: Viewer, _: Params<NoParams>) -> Result<Response, Problem> {
    match app.cached().counts(app.engine()).await {
        Ok(counts) => Ok(respond::json(StatusCode::OK, &StatsDto::new(&counts.stats, counts.as_of))),
        Err(refused) => Err(refuse(&app, refused).await),
    }
}
