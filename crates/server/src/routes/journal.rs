//! A saga's journal.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::App;
use crate::auth::Viewer;
use crate::cursor::{self, List};
use crate::dto::{JournalDto, JournalList};
use crate::extract::{Params, SagaPath, given, limit};
use crate::problem::Problem;
use crate::refuse::refuse;
use crate::respond;

/// Whole journals of ordinary sagas: a page holds far more entries than they have.
const PAGE_MAX: usize = 500;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JournalParams {
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// How many, 1 to 500; default 500.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// Shows a saga's journal
///
/// Everything that happened to it, oldest first. Retention removes the journals of ended sagas, but keeps what people did
/// and what contradicted.
#[utoipa::path(
    get,
    path = "/v1/sagas/{id}/journal",
    tag = "sagas",
    operation_id = "get_journal",
    params(("id" = String, Path, description = "The business id, percent-encoded."), JournalParams),
    responses((status = 200, description = "A page.", body = JournalList))
)]
pub(crate) async fn get(
    State(app): State<App>,
    _: Viewer,
    SagaPath(id): SagaPath,
    Params(params): Params<JournalParams>,
) -> Result<Response, Problem> {
    let limit = limit(params.limit, PAGE_MAX, PAGE_MAX)?;
    let after = given(params.cursor).map(|text| cursor::read_number(List::Journal, &text)).transpose()?;
    match app.engine().journal(&id, after.unwrap_or(0), limit).await {
        Ok(page) => {
            let last = page.entries.last().filter(|_| page.more);
            let next = last.map(|last| cursor::write_number(List::Journal, last.seq));
            let definition = page.definition.as_deref();
            let items = page.entries.iter().map(|entry| JournalDto::new(entry, definition)).collect();
            Ok(respond::json(StatusCode::OK, &JournalList { items, next }))
        }
        Err(refused) => Err(refuse(&app, refused).await),
    }
}
