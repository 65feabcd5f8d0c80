//! Refusals on the wire: `application/problem+json` (RFC 9457), one `type` for each kind of refusal.

use amends_core::definition::Diagnostic;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::dto::{DiagnosticDto, LockHeld, Stamp};

/// The media type of every refusal.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// What kind of refusal it is: the last part of the `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Malformed,
    InvalidDefinition,
    DefinitionConflict,
    UnknownDefinition,
    UnknownSaga,
    UnknownStep,
    InputConflict,
    ClaimHeld,
    ClaimFrozen,
    PastPivot,
    WrongState,
    StaleVersion,
    VersionRequired,
    ReasonRequired,
    KeyExpired,
    TooLarge,
    Unauthenticated,
    Forbidden,
    Overloaded,
    StoreUnavailable,
    /// A fault of the server itself, which has no name of its own: `about:blank`, as RFC 9457 says.
    Internal,
}

impl Kind {
    /// Every kind, in the order of the documentation; [`Kind::Internal`] last.
    pub(crate) const ALL: [Self; 21] = [
        Self::Malformed,
        Self::InvalidDefinition,
        Self::DefinitionConflict,
        Self::UnknownDefinition,
        Self::UnknownSaga,
        Self::UnknownStep,
        Self::InputConflict,
        Self::ClaimHeld,
        Self::ClaimFrozen,
        Self::PastPivot,
        Self::WrongState,
        Self::StaleVersion,
        Self::VersionRequired,
        Self::ReasonRequired,
        Self::KeyExpired,
        Self::TooLarge,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Overloaded,
        Self::StoreUnavailable,
        Self::Internal,
    ];

    /// The problem's `type`.
    pub(crate) fn urn(self) -> &'static str {
        match self {
            Self::Malformed => "urn:amends:problem:malformed",
            Self::InvalidDefinition => "urn:amends:problem:invalid-definition",
            Self::DefinitionConflict => "urn:amends:problem:definition-conflict",
            Self::UnknownDefinition => "urn:amends:problem:unknown-definition",
            Self::UnknownSaga => "urn:amends:problem:unknown-saga",
            Self::UnknownStep => "urn:amends:problem:unknown-step",
            Self::InputConflict => "urn:amends:problem:input-conflict",
            Self::ClaimHeld => "urn:amends:problem:claim-held",
            Self::ClaimFrozen => "urn:amends:problem:claim-frozen",
            Self::PastPivot => "urn:amends:problem:past-pivot",
            Self::WrongState => "urn:amends:problem:wrong-state",
            Self::StaleVersion => "urn:amends:problem:stale-version",
            Self::VersionRequired => "urn:amends:problem:version-required",
            Self::ReasonRequired => "urn:amends:problem:reason-required",
            Self::KeyExpired => "urn:amends:problem:key-expired",
            Self::TooLarge => "urn:amends:problem:too-large",
            Self::Unauthenticated => "urn:amends:problem:unauthenticated",
            Self::Forbidden => "urn:amends:problem:forbidden",
            Self::Overloaded => "urn:amends:problem:overloaded",
            Self::StoreUnavailable => "urn:amends:problem:store-unavailable",
            Self::Internal => "about:blank",
        }
    }

    /// The same words for every problem of this kind.
    fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is not well-formed",
            Self::InvalidDefinition => "The definition has problems",
            Self::DefinitionConflict => "This version is registered with other content",
            Self::UnknownDefinition => "No such definition",
            Self::UnknownSaga => "No such saga",
            Self::UnknownStep => "No such step",
            Self::InputConflict => "The id names another operation",
            Self::ClaimHeld => "A resource is held by another saga",
            Self::ClaimFrozen => "A resource is frozen by a saga that nobody has settled yet",
            Self::PastPivot => "The point of no return is passed",
            Self::WrongState => "Not possible in this state",
            Self::StaleVersion => "The saga has moved since",
            Self::VersionRequired => "The version you saw is missing",
            Self::ReasonRequired => "A reason is missing",
            Self::KeyExpired => "The idempotency key is too old to rely on",
            Self::TooLarge => "The request is too large",
            Self::Unauthenticated => "Not authenticated",
            Self::Forbidden => "Not permitted",
            Self::Overloaded => "Too much is under way",
            Self::StoreUnavailable => "The store cannot be used",
            Self::Internal => "Internal Server Error",
        }
    }

    /// The HTTP status it has unless the place where it arises says otherwise.
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::UnknownDefinition | Self::UnknownSaga | Self::UnknownStep => StatusCode::NOT_FOUND,
            Self::InvalidDefinition | Self::InputConflict | Self::ReasonRequired => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::DefinitionConflict
            | Self::ClaimHeld
            | Self::ClaimFrozen
            | Self::PastPivot
            | Self::WrongState
            | Self::KeyExpired => StatusCode::CONFLICT,
            Self::StaleVersion => StatusCode::PRECONDITION_FAILED,
            Self::VersionRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Overloaded | Self::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A problem document. Members that do not apply are left out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Body {
    /// `urn:amends:problem:` and the kind: `malformed`, `invalid-definition`, `definition-conflict`, `unknown-definition`,
    /// `unknown-saga`, `unknown-step`, `input-conflict`, `claim-held`, `claim-frozen`, `past-pivot`, `wrong-state`,
    /// `stale-version`, `version-required`, `reason-required`, `key-expired`, `too-large`, `unauthenticated`, `forbidden`,
    /// `overloaded` or `store-unavailable`. A fault of the server itself (500) is `about:blank`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The same for every problem of this type.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong, and what to do about it.
    detail: String,
    /// `malformed`: the line of the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// `malformed`: the column in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// `malformed`: the field of the body, the parameter, the header, or the path missing in the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// `invalid-definition`: every problem found.
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Vec<DiagnosticDto>>,
    /// `stale-version`: the version the saga has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// `definition-conflict`: the digest of what is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// `wrong-state` of a lock that somebody else holds: who.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<LockHeld>,
    /// `wrong-state` of a lock that is not yours any more: `expired`, `released`, `taken`, `unknown` or `owner_mismatch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<&'static str>,
    #[serde(flatten)]
    held: Option<Held>,
}

/// Who holds a resource (`claim-held`, `claim-frozen`).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Held {
    /// The claim that is held.
    pub(crate) claim: String,
    /// Id of the saga that holds it.
    pub(crate) holder: String,
    /// The holder's status.
    pub(crate) holder_status: String,
    /// The step the holder is at; null if it is between steps.
    pub(crate) step: Option<String>,
    /// Since when.
    pub(crate) since: Stamp,
}

/// A refusal, on its way to the caller.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    status: StatusCode,
    body: Body,
    header: Option<(http::HeaderName, HeaderValue)>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let status = kind.status();
        let body = Body {
            kind: kind.urn(),
            title: kind.title(),
            status: status.as_u16(),
            detail: detail.into(),
            line: None,
            column: None,
            path: None,
            problems: None,
            version: None,
            digest: None,
            lock: None,
            lost: None,
            held: None,
        };
        Self(Box::new(Inner { kind, status, body, header: None }))
    }

    /// 400: what the caller sent cannot be understood.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, detail)
    }

    /// 415: the media type of the body.
    pub(crate) fn media_type(detail: impl Into<String>) -> Self {
        Self::malformed(detail).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
    }

    /// 401, with the scheme to use.
    pub(crate) fn unauthenticated(detail: impl Into<String>) -> Self {
        let mut problem = Self::new(Kind::Unauthenticated, detail);
        problem.0.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"amends\"")));
        problem
    }

    /// 503, to be tried again after `after_ms`.
    pub(crate) fn retry_later(kind: Kind, detail: impl Into<String>, after_ms: u64) -> Self {
        let mut problem = Self::new(kind, detail);
        problem.0.header = Some((RETRY_AFTER, HeaderValue::from(after_ms.div_ceil(1_000).max(1))));
        problem
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    #[must_use]
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self.0.body.status = status.as_u16();
        self
    }

    #[must_use]
    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.0.body.path = Some(path.into());
        self
    }

    #[must_use]
    pub(crate) fn at_line(mut self, line: usize, column: usize) -> Self {
        self.0.body.line = Some(line);
        self.0.body.column = Some(column);
        self
    }

    #[must_use]
    pub(crate) fn with_problems(mut self, found: Vec<Diagnostic>) -> Self {
        self.0.body.problems = Some(found.into_iter().map(DiagnosticDto::from).collect());
        self
    }

    #[must_use]
    pub(crate) fn with_version(mut self, version: u64) -> Self {
        self.0.body.version = Some(version);
        self
    }

    #[must_use]
    pub(crate) fn with_digest(mut self, digest: String) -> Self {
        self.0.body.digest = Some(digest);
        self
    }

    #[must_use]
    pub(crate) fn with_lock(mut self, held: LockHeld) -> Self {
        self.0.body.lock = Some(held);
        self
    }

    #[must_use]
    pub(crate) fn with_lost(mut self, lost: &'static str) -> Self {
        self.0.body.lost = Some(lost);
        self
    }

    #[must_use]
    pub(crate) fn with_held(mut self, held: Held) -> Self {
        self.0.body.held = Some(held);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Inner { kind, status, body, header } = *self.0;
        let body = serde_json::to_vec(&body).expect("invariant: a problem document always encodes");
        let mut response =
            (status, [(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))], body).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        // For the count of refusals by kind, which is taken where all answers pass.
        response.extensions_mut().insert(kind);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_type_of_its_own() {
        let mut urns: Vec<_> = Kind::ALL.iter().map(|kind| kind.urn()).collect();
        urns.sort_unstable();
        urns.dedup();
        assert_eq!(urns.len(), Kind::ALL.len());
        assert!(urns.iter().all(|urn| urn.starts_with("urn:amends:problem:") || *urn == "about:blank"));
    }

    #[test]
    fn members_that_do_not_apply_are_left_out() {
        let problem = Problem::malformed("bad").at("input").at_line(2, 7);
        let text = serde_json::to_string(&problem.0.body).unwrap();
        assert_eq!(
            text,
            r#"{"type":"urn:amends:problem:malformed","title":"The request is not well-formed","status":400,"detail":"bad","line":2,"column":7,"path":"input"}"#
        );
    }
}
