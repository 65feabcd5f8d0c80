//! What handlers take out of a request's head, each with a refusal that names where.

use amends_core::SagaId;
use amends_core::definition::parse_duration;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query};
use http::header::IF_MATCH;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::App;
use crate::problem::Problem;

/// The saga named in the path; percent-encoded, so that it may hold `/` and anything else.
pub(crate) struct SagaPath(pub(crate) SagaId);

impl FromRequestParts<App> for SagaPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let NamePath(id) = NamePath::from_request_parts(parts, app).await?;
        saga_id(id, "id").map(Self)
    }
}

/// A name in the path.
pub(crate) struct NamePath(pub(crate) String);

impl FromRequestParts<App> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let name: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, app).await;
        name.map(|Path(name)| Self(name)).map_err(|rejection| {
            Problem::malformed(format!("the path cannot be read: {}", rejection.body_text())).at("path")
        })
    }
}

/// Checks an id; `at` names where it stood.
pub(crate) fn saga_id(id: String, at: &str) -> Result<SagaId, Problem> {
    SagaId::new(id).map_err(|bad| Problem::malformed(bad.to_string()).at(at))
}

/// The query parameters; an unknown one, or one given twice, is refused.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Query::<T>::try_from_uri(&parts.uri)
            .map(|Query(params)| Self(params))
            .map_err(|rejection| Problem::malformed(rejection.body_text()).at("query"))
    }
}

/// A parameter that was given; one that is there but empty counts as left out.
pub(crate) fn given(parameter: Option<String>) -> Option<String> {
    parameter.filter(|text| !text.is_empty())
}

/// A whole number in a parameter.
pub(crate) fn number(name: &str, text: Option<String>) -> Result<Option<u64>, Problem> {
    let read = |text: String| {
        text.parse().map_err(|_| Problem::malformed(format!("`{name}` must be a whole number")).at(name))
    };
    given(text).map(read).transpose()
}

/// A duration in a parameter, in milliseconds. Unlike elsewhere it may be none at all: `0s`.
pub(crate) fn duration_ms(name: &str, text: Option<String>) -> Result<Option<u64>, Problem> {
    let read = |text: String| match text.strip_prefix('0') {
        Some("ms" | "s" | "m" | "h" | "d") => Ok(0),
        Some(_) | None => {
            parse_duration(&text).map_err(|bad| Problem::malformed(format!("`{name}`: {bad}")).at(name))
        }
    };
    given(text).map(read).transpose()
}

/// The size of a page, between 1 and `max`.
pub(crate) fn limit(text: Option<String>, default: usize, max: usize) -> Result<usize, Problem> {
    match number("limit", text)? {
        None => Ok(default),
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=max).contains(limit))
            .ok_or_else(|| Problem::malformed(format!("`limit` must be between 1 and {max}")).at("limit")),
    }
}

/// The version in `If-Match`, quoted as in the ETag or bare. `None`: there is no such header.
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl FromRequestParts<App> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(IF_MATCH).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let text = value.to_str().ok().map(str::trim).filter(|_| values.next().is_none());
        let digits =
            text.map(|text| text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text));
        // `parse` alone would also take a sign.
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(version) => Ok(Self(Some(version))),
            None => Err(Problem::malformed("`If-Match` must be the one version you saw, such as \"7\"")
                .at("If-Match")),
        }
    }
}

/// For routes without query parameters: any is unknown.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParams {}
