//! Definitions: applied, listed and shown.

use amends_engine::DefinitionText;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::App;
use crate::auth::{Admin, Viewer};
use crate::body::{self, Media, RawBody};
use crate::cursor::{self, List};
use crate::dto::{DefinitionDto, DefinitionItem, DefinitionList};
use crate::extract::{NamePath, Params, given, limit, number};
use crate::problem::Problem;
use crate::refuse::refuse;
use crate::respond;

const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 500;

/// Registers a definition
///
/// The body is the definition in TOML, or the same tree in JSON. What is registered never changes: another content
/// needs another `version`.
#[utoipa::path(
    put,
    path = "/v1/definitions/{name}",
    tag = "definitions",
    operation_id = "apply_definition",
    params(("name" = String, Path, description = "The definition's `saga`.")),
    request_body(content(("application/toml"), ("application/json"))),
    responses(
        (status = 201, description = "It is registered now.", body = DefinitionDto),
        (status = 200, description = "The same content was registered before.", body = DefinitionDto),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    _: Admin,
    NamePath(name): NamePath,
    headers: HeaderMap,
    RawBody(bytes): RawBody,
) -> Result<Response, Problem> {
    let media = body::media(&headers)?;
    let text = String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::malformed(format!("the body is not UTF-8: the byte at offset {at} does not belong"))
    })?;
    let text = match media {
        Media::Toml => DefinitionText::Toml(text),
        Media::Json => DefinitionText::Json(text),
        Media::Unnamed | Media::Other => {
            return Err(Problem::media_type(
                "say what the body is: `Content-Type: application/toml` or `Content-Type: application/json`",
            )
            .at("Content-Type"));
        }
    };
    match app.engine().register(text, &name).await {
        Ok(registered) => {
            let status = if registered.created { StatusCode::CREATED } else { StatusCode::OK };
            Ok(respond::json(status, &DefinitionDto::from(&registered)))
        }
        Err(refused) => Err(refuse(&app, refused).await),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GetParams {
    /// Which version; default the highest.
    #[param(value_type = Option<u64>)]
    version: Option<String>,
}

/// Shows a definition
#[utoipa::path(
    get,
    path = "/v1/definitions/{name}",
    tag = "definitions",
    operation_id = "get_definition",
    params(("name" = String, Path, description = "The definition's `saga`."), GetParams),
    responses((status = 200, description = "The definition.", body = DefinitionDto))
)]
pub(crate) async fn get(
    State(app): State<App>,
    _: Viewer,
    NamePath(name): NamePath,
    Params(params): Params<GetParams>,
) -> Result<Response, Problem> {
    let version = number("version", params.version)?;
    match app.engine().definition(&name, version).await {
        Ok(registered) => Ok(respond::json(StatusCode::OK, &DefinitionDto::from(&registered))),
        Err(refused) => Err(refuse(&app, refused).await),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// How many, 1 to 500; default 50.
    #[param(value_type = Option<u64>)]
    limit: Option<String>,
}

/// Lists definitions
///
/// Every version, by name and version.
#[utoipa::path(
    get,
    path = "/v1/definitions",
    tag = "definitions",
    operation_id = "list_definitions",
    params(ListParams),
    responses((status = 200, description = "A page.", body = DefinitionList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: Viewer,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    let limit = limit(params.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let after = given(params.cursor).map(|cursor| read_position(&cursor)).transpose()?;
    // One more than asked for tells whether there is another page.
    match app.engine().definitions(after, limit + 1).await {
        Ok(mut found) => {
            let more = found.len() > limit;
            found.truncate(limit);
            let next = found
                .last()
                .filter(|_| more)
                .map(|last| write_position(&last.definition.name, last.definition.version));
            let items = found.iter().map(DefinitionItem::from).collect();
            Ok(respond::json(StatusCode::OK, &DefinitionList { items, next }))
        }
        Err(refused) => Err(refuse(&app, refused).await),
    }
}

fn write_position(name: &str, version: u64) -> String {
    cursor::write(List::Definitions, format!("{version}:{name}").as_bytes())
}

fn read_position(text: &str) -> Result<(String, u64), Problem> {
    let position =
        String::from_utf8(cursor::read(List::Definitions, text)?).map_err(|_| cursor::refused())?;
    let (version, name) = position.split_once(':').ok_or_else(cursor::refused)?;
    Ok((name.to_owned(), version.parse().map_err(|_| cursor::refused())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back_as_they_went() {
        assert_eq!(read_position(&write_position("order", 7)).unwrap(), ("order".to_owned(), 7));
        assert!(read_position(&cursor::write(List::Definitions, b"order")).is_err());
    }
}
