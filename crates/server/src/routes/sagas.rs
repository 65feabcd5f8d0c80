//! Sagas: submitted, listed and shown.

use std::time::Duration;

use amends_core::Time;
use amends_core::status::Status;
use amends_engine::{Refused, Start, Started, View};
use amends_store::{Cursor, ListFilter};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::auth::{Operator, Viewer};
use crate::body::JsonBody;
use crate::cursor::{self, List};
use crate::dto::{RowDto, SagaDto, SagaList, Stamp};
use crate::extract::{Params, SagaPath, duration_ms, given, limit, saga_id};
use crate::json;
use crate::problem::Problem;
use crate::refuse::refuse;
use crate::respond;
use crate::trace::Trace;

const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 500;

/// The most bytes of `q`, and of names to filter by: as many as a saga's id may have.
const FILTER_BYTES_MAX: usize = amends_core::SAGA_ID_BYTES_MAX;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubmitParams {
    /// How long to wait for its end, such as `5s`: answered at the end, at `unknown`, at `dead`, or when the time is over.
    /// Cut to the server's `max_wait`.
    wait: Option<String>,
}

/// A saga to begin.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submission {
    /// Name of the definition.
    saga: String,
    /// The business id, such as `order:789`: UTF-8, 1 to 256 bytes, no control characters. It names one operation for ever.
    id: String,
    /// The input; numbers keep their exact text.
    #[serde(deserialize_with = "json::tree")]
    #[schema(value_type = Value)]
    input: Value,
    /// Version of the definition; default the highest.
    version: Option<u64>,
}

/// Submits a saga
///
/// Submitting it again (same id, definition name and input) answers with the same saga, however often and also after
/// it ended. 201 and 200 are given once it is durable. 409 `claim-held` and `claim-frozen` name who holds a resource.
#[utoipa::path(
    post,
    path = "/v1/sagas",
    tag = "sagas",
    operation_id = "submit_saga",
    params(SubmitParams),
    request_body = Submission,
    responses(
        (status = 201, description = "It is new.", body = SagaDto,
            headers(("ETag" = String, description = "Its version."), ("Location" = String, description = "Its path."))),
        (status = 200, description = "It was known.", body = SagaDto, headers(("ETag" = String, description = "Its version."))),
    )
)]
pub(crate) async fn submit(
    State(app): State<App>,
    Operator(who): Operator,
    Params(params): Params<SubmitParams>,
    Trace(trace): Trace,
    JsonBody(submission): JsonBody<Submission>,
) -> Result<Response, Problem> {
    let wait_ms = duration_ms("wait", params.wait)?;
    let id = saga_id(submission.id, "id")?;
    let start = Start {
        saga: submission.saga,
        version: submission.version,
        id: id.clone(),
        input: submission.input,
        trace,
        who: who.to_string(),
    };
    let Started { view, created } = match app.engine().submit(start).await {
        Ok(started) => started,
        // The JSON is well-formed; a value in it does not fit where the definition puts it.
        Err(Refused::Malformed(detail)) => {
            return Err(Problem::malformed(detail).with_status(StatusCode::UNPROCESSABLE_ENTITY).at("input"));
        }
        Err(refused) => return Err(refuse(&app, refused).await),
    };
    let view = match wait_ms {
        None => view,
        Some(ms) => {
            let at_most = Duration::from_millis(ms).min(app.limits().max_wait);
            // It is durable already: whatever becomes of the waiting, the caller learns that.
            tokio::select! {
                biased;
                waited = app.engine().wait(&id, at_most) => waited.unwrap_or(view),
                () = app.stops() => latest(&app, view).await,
            }
        }
    };
    if created {
        Ok(respond::with_location(respond::saga(StatusCode::CREATED, &view), id.as_str()))
    } else {
        Ok(respond::saga(StatusCode::OK, &view))
    }
}

/// The saga as it is now, or at least as it was.
async fn latest(app: &App, view: View) -> View {
    let id = match &view {
        View::Whole(saga) => &saga.id,
        View::Row { row, .. } => &row.id,
    };
    app.engine().saga(id).await.unwrap_or(view)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Status words, separated by commas.
    status: Option<String>,
    /// Name of the definition.
    saga: Option<String>,
    /// The step most in need of attention.
    step: Option<String>,
    /// Submitted longer ago than this, such as `10m`.
    older_than: Option<String>,
    /// Part of the id.
    q: Option<String>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// How many, 1 to 500; default 50.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// Lists sagas
///
/// Newest first. `status=dead` lists the dead letters.
#[utoipa::path(
    get,
    path = "/v1/sagas",
    tag = "sagas",
    operation_id = "list_sagas",
    params(ListParams),
    responses((status = 200, description = "A page.", body = SagaList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: Viewer,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    let as_of = Stamp::now();
    let older_than_ms = duration_ms("older_than", params.older_than)?;
    let filter = ListFilter {
        status: given(params.status).map_or(Ok(Vec::new()), |words| statuses(&words))?,
        saga: name("saga", params.saga)?,
        step: name("step", params.step)?,
        created_before: older_than_ms
            .map(|ms| Time(as_of.0.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)))),
        text: name("q", params.q)?,
    };
    let limit = limit(params.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let cursor =
        given(params.cursor).map(|text| cursor::read_number(List::Sagas, &text)).transpose()?.map(Cursor);
    match app.engine().list(&filter, cursor, limit).await {
        Ok(page) => {
            let next = page.next.map(|Cursor(position)| cursor::write_number(List::Sagas, position));
            let items = page.rows.into_iter().map(RowDto::from).collect();
            Ok(respond::json(StatusCode::OK, &SagaList { items, next, as_of }))
        }
        Err(refused) => Err(refuse(&app, refused).await),
    }
}

fn statuses(words: &str) -> Result<Vec<String>, Problem> {
    let word = |word: &str| match Status::parse(word.trim()) {
        Some(status) => Ok(status.as_str().to_owned()),
        None => {
            let all: Vec<_> = Status::ALL.into_iter().map(Status::as_str).collect();
            Err(Problem::malformed(format!("`status` must be of {}, separated by commas", all.join(", ")))
                .at("status"))
        }
    };
    let mut all = words.split(',').map(word).collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn name(parameter: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    match given(text) {
        Some(text) if text.len() > FILTER_BYTES_MAX => {
            Err(Problem::malformed(format!("`{parameter}` has more than {FILTER_BYTES_MAX} bytes"))
                .at(parameter))
        }
        text => Ok(text),
    }
}

/// Shows a saga
#[utoipa::path(
    get,
    path = "/v1/sagas/{id}",
    tag = "sagas",
    operation_id = "get_saga",
    params(("id" = String, Path, description = "The business id, percent-encoded.")),
    responses((status = 200, description = "The saga.", body = SagaDto, headers(("ETag" = String, description = "Its version."))))
)]
pub(crate) async fn get(
    State(app): State<App>,
    _: Viewer,
    SagaPath(id): SagaPath,
) -> Result<Response, Problem> {
    match app.engine().saga(&id).await {
        Ok(view) => Ok(respond::saga(StatusCode::OK, &view)),
        Err(refused) => Err(refuse(&app, refused).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_words_of_the_list() {
        assert_eq!(statuses("dead, unknown,dead").unwrap(), ["dead", "unknown"]);
        for bad in ["", ",", "dead,", "DEAD", "ended"] {
            assert!(statuses(bad).is_err(), "{bad}");
        }
    }
}
