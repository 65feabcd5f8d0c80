//! Every route, in one place.

mod actions;
mod callbacks;
mod dead_letters;
mod definitions;
mod health;
mod journal;
mod locks;
mod metrics;
mod openapi;
mod sagas;
mod stats;

use axum::Router;
use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::problem::Problem;

/// The routes. They and their documentation are made from this one list.
pub(crate) fn router(app: App) -> Router {
    documented()
        .split_for_parts()
        .0
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .with_state(app)
}

/// The documentation of the routes, ready to be sent.
pub(crate) fn documentation() -> Bytes {
    openapi::finish(documented().into_openapi())
}

fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(definitions::put, definitions::get))
        .routes(routes!(definitions::list))
        .routes(routes!(sagas::submit, sagas::list))
        .routes(routes!(sagas::get))
        .routes(routes!(journal::get))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::retry))
        .routes(routes!(actions::resolve))
        .routes(routes!(actions::skip))
        .routes(routes!(actions::close))
        .routes(routes!(callbacks::post))
        .routes(routes!(locks::acquire, locks::renew, locks::release, locks::show))
        .routes(routes!(dead_letters::list))
        .routes(routes!(stats::get))
        .routes(routes!(metrics::get))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(openapi::get))
}

async fn unknown_route(uri: Uri) -> Problem {
    Problem::malformed(format!("there is nothing at `{}`; /openapi.json lists what there is", shown(&uri)))
        .with_status(StatusCode::NOT_FOUND)
        .at("path")
}

async fn unknown_method(method: Method, uri: Uri) -> Problem {
    Problem::malformed(format!("`{}` has no {method}; the header `Allow` names what it has", shown(&uri)))
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
        .at("method")
}

/// The path, cut to a length that fits a message.
fn shown(uri: &Uri) -> String {
    uri.path().chars().take(200).collect()
}
