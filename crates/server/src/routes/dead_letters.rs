//! Dead letters, by what they died of.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::App;
use crate::auth::Viewer;
use crate::counts::GROUPS_MAX;
use crate::dto::{GroupDto, GroupList, Stamp};
use crate::extract::{Params, limit};
use crate::problem::Problem;
use crate::refuse::refuse;
use crate::respond;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GroupParams {
    /// How many groups, 1 to 500; default 500.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// Groups dead letters
///
/// By definition, step, operation and what kind of trouble; the largest group first. `GET /v1/sagas?status=dead` lists
/// them one by one.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    tag = "dead letters",
    operation_id = "list_dead_letters",
    params(GroupParams),
    responses((status = 200, description = "The groups.", body = GroupList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: Viewer,
    Params(params): Params<GroupParams>,
) -> Result<Response, Problem> {
    let limit = limit(params.limit, GROUPS_MAX, GROUPS_MAX)?;
    let as_of = Stamp::now();
    match app.engine().dead_groups(limit).await {
        Ok(groups) => {
            let items = groups.into_iter().map(GroupDto::from).collect();
            Ok(respond::json(StatusCode::OK, &GroupList { items, next: None, as_of }))
        }
        Err(refused) => Err(refuse(&app, refused).await),
    }
}
