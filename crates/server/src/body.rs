//! Reading bodies: bounded in bytes and in time, and only of media types that are meant.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::App;
use crate::json;
use crate::problem::{Kind, Problem};

/// How much of a body that is too large is read and thrown away, so that a client that first sends everything and
/// only then reads gets the answer instead of a broken connection.
const DISCARD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A body of any media type, whole.
pub(crate) struct RawBody(pub(crate) Bytes);

impl FromRequest<App> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let limits = app.limits();
        read(&parts.headers, body, limits.max_body_bytes, limits.body_timeout).await.map(Self)
    }
}

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let media = media(request.headers());
        let RawBody(body) = RawBody::from_request(request, app).await?;
        media?.json()?;
        json::read(&body).map(Self)
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let media = media(request.headers());
        let RawBody(body) = RawBody::from_request(request, app).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        media?.json()?;
        json::read(&body).map(Self)
    }
}

async fn read(
    headers: &HeaderMap,
    mut body: Body,
    bytes_max: usize,
    within: Duration,
) -> Result<Bytes, Problem> {
    let bytes = async {
        let announced = body.size_hint().lower();
        if announced > bytes_max as u64 {
            // Who asks first is told before anything is sent.
            if !headers.contains_key(EXPECT) && announced <= DISCARD_BYTES_MAX as u64 {
                discard(&mut body).await;
            }
            return Err(too_large(bytes_max));
        }
        match Limited::new(&mut body, bytes_max).collect().await {
            Ok(all) => Ok(all.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                discard(&mut body).await;
                Err(too_large(bytes_max))
            }
            Err(error) => Err(Problem::malformed(format!("the body did not arrive whole: {error}"))),
        }
    };
    tokio::time::timeout(within, bytes).await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {} s", within.as_secs());
        Err(Problem::malformed(detail).with_status(StatusCode::REQUEST_TIMEOUT))
    })
}

async fn discard(body: &mut Body) {
    let mut left = DISCARD_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the body has more than {bytes_max} bytes; keep documents elsewhere and send a reference"),
    )
}

/// What a body is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Toml,
    /// Nothing is said.
    Unnamed,
    /// Something else.
    Other,
}

impl Media {
    /// Accepts JSON, and what is not named: unlike `text/plain` and forms, a page elsewhere is given away by its `Origin`.
    pub(crate) fn json(self) -> Result<(), Problem> {
        match self {
            Self::Json | Self::Unnamed => Ok(()),
            Self::Toml | Self::Other => {
                Err(Problem::media_type("the body must be JSON, with `Content-Type: application/json`")
                    .at("Content-Type"))
            }
        }
    }
}

/// Reads `Content-Type`; refuses encoded bodies, whose size cannot be known in advance.
pub(crate) fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::media_type(
            "encoded bodies are not accepted; send it without `Content-Encoding`",
        )
        .at("Content-Encoding"));
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Media::Unnamed) };
    let Ok(value) = value.to_str() else { return Ok(Media::Other) };
    let essence = value.split_once(';').map_or(value, |(essence, _)| essence).trim();
    Ok(if essence.eq_ignore_ascii_case("application/json") {
        Media::Json
    } else if essence.eq_ignore_ascii_case("application/toml") {
        Media::Toml
    } else {
        Media::Other
    })
}
