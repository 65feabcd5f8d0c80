//! Answers other than refusals.

use amends_engine::View;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::dto::SagaDto;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What need not be encoded in a path: the unreserved characters and `:`, as everywhere in amends.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A JSON document.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    (status, [(CONTENT_TYPE, JSON)], encode(body, 512)).into_response()
}

/// The saga object, with its version as ETag.
pub(crate) fn saga(status: StatusCode, view: &View) -> Response {
    let saga = SagaDto::new(view);
    let etag =
        HeaderValue::try_from(format!("\"{}\"", saga.version())).expect("invariant: digits fit a header");
    (status, [(CONTENT_TYPE, JSON), (ETAG, etag)], encode(&saga, saga.bytes_about())).into_response()
}

/// Says where a new saga is.
pub(crate) fn with_location(mut response: Response, id: &str) -> Response {
    let location = format!("/v1/sagas/{}", utf8_percent_encode(id, SEGMENT));
    let location = HeaderValue::try_from(location).expect("invariant: percent-encoded text fits a header");
    response.headers_mut().insert(LOCATION, location);
    response
}

fn encode(body: &impl Serialize, expected_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(expected_bytes);
    serde_json::to_writer(&mut bytes, body).expect("invariant: answers always encode");
    bytes
}
