//! The documentation of the API, made from the code.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref,
    ResponseBuilder,
};
use utoipa::{PartialSchema as _, ToSchema};

use crate::App;
use crate::dto::{DiagnosticDto, LockHeld, Stamp};
use crate::problem::{self, Held};

/// Name of the security scheme.
const BEARER: &str = "token";

/// The finished document, ready to be sent.
pub(crate) fn finish(mut api: OpenApi) -> Bytes {
    for item in api.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch, &mut item.head];
        operations.into_iter().flatten().for_each(may_be_refused);
    }
    serde_json::to_vec(&api).expect("invariant: the document always encodes").into()
}

/// Every operation may answer with a problem.
fn may_be_refused(operation: &mut Operation) {
    operation.responses.responses.insert("default".into(), Ref::from_response_name("Problem").into());
}

/// What is not tied to a route.
pub(crate) fn frame() -> OpenApi {
    let problem = ResponseBuilder::new()
        .description("A refusal. Nothing was changed, unless its detail says that this is not known.")
        .content(
            problem::MEDIA_TYPE,
            ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build(),
        )
        .build();
    let mut schemas = vec![
        ("Problem".to_owned(), problem::Body::schema()),
        ("Held".to_owned(), Held::schema()),
        ("LockHeld".to_owned(), LockHeld::schema()),
        ("Diagnostic".to_owned(), DiagnosticDto::schema()),
        ("Stamp".to_owned(), Stamp::schema()),
    ];
    problem::Body::schemas(&mut schemas);
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .response("Problem", problem)
        .security_scheme(BEARER, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)))
        .build();
    let info = InfoBuilder::new()
        .title("amends")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Sagas that are driven forward, undone, or put in front of a person; never lost, never done twice, never \
             undone on a guess. Refusals are `application/problem+json`. Without tokens configured the server listens on \
             loopback only and needs no `Authorization`.",
        ))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .security(Some([SecurityRequirement::new(BEARER, Vec::<String>::new())]))
        .build()
}

/// Documents the API
///
/// OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operation",
    operation_id = "get_openapi",
    security(()),
    responses((status = 200, description = "This document.", content_type = "application/json"))
)]
pub(crate) async fn get(State(app): State<App>) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.documentation()).into_response()
}
