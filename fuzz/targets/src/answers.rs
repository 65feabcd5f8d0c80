//! What participants answer.

use std::sync::LazyLock;

use amends_core::answer::{REASON_BYTES_MAX, read_answer, read_query};
use amends_core::definition::{Definition, from_toml};
use amends_core::{Answer, Outcome, QueryOutcome, Time};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Operations that read answers in different ways.
static DEFINITION: LazyLock<std::sync::Arc<Definition>> = LazyLock::new(|| {
    let text = r#"
saga = "answers"
version = 1
[participants.a]
idempotency = "effect"
[[step]]
name = "plain"
effect = "none"
[step.action]
to = "a"
post = "/"
query = { get = "/" }
[[step]]
name = "serial"
effect = "none"
[step.action]
to = "a"
post = "/"
serial = ["/id", "/data/0/id"]
query = { get = "/", serial = "/no" }
[[step]]
name = "ruled"
effect = "none"
[step.action]
to = "a"
post = "/"
outcome = { at = ["/status", "/state"], done = ["SUCCESS", 1, true], rejected = ["FAIL"], in_progress = ["PENDING"], not_executed = ["BUSY"], codes = { "404" = "rejected", "500" = "not_executed" } }
query = { get = "/", outcome = { at = "/status", done = ["SUCCESS"], never_seen = ["NOT_EXIST"], sealed = ["CLOSED"], codes = { "404" = "never_seen", "410" = "sealed" } } }
"#;
    from_toml(text).unwrap_or_else(|problems| panic!("{problems:#?}")).definition
});

/// An answer: two bytes of status, then the body.
///
/// # Panics
/// If the parser does what it must not.
pub fn answer(data: &[u8]) {
    let Some((status, body)) = data.split_at_checked(2) else { return };
    let status = u16::from_le_bytes([status[0], status[1]]) % 1_000;
    for retry_after_ms in [None, Some(u64::MAX)] {
        let answer = Answer::Response { status, retry_after_ms, body: body.to_vec() };
        for step in &DEFINITION.steps {
            let op = step.action.as_ref().expect("invariant: each step has an action");
            let outcome = read_answer(op, &answer);
            if let Outcome::Done { serial, .. } = &outcome {
                assert!(
                    op.serial.is_empty() || serial.as_ref().is_some_and(|serial| !serial.is_null()),
                    "{outcome:?}"
                );
            }
            match &outcome {
                Outcome::Rejected { reason, .. }
                | Outcome::NotExecuted { reason, .. }
                | Outcome::Misconfigured { reason }
                | Outcome::Unknown { reason } => is_one_line(reason),
                Outcome::Done { .. } | Outcome::InProgress { .. } => {}
            }
            is_stored_as_it_is(&outcome);
            let query = op.query.as_ref().expect("invariant: each action has a query");
            let outcome = read_query(op, query, &answer);
            match &outcome {
                QueryOutcome::Rejected { reason } | QueryOutcome::NoAnswer { reason } => is_one_line(reason),
                QueryOutcome::Done { serial, .. } => {
                    assert!(query.serial.is_empty() || serial.is_some(), "{outcome:?}");
                }
                QueryOutcome::InProgress { .. } | QueryOutcome::NeverSeen { .. } | QueryOutcome::Sealed => {}
            }
            is_stored_as_it_is(&outcome);
        }
    }
}

fn is_one_line(reason: &str) {
    assert!(!reason.is_empty() && reason.len() <= REASON_BYTES_MAX, "{} bytes of reason", reason.len());
    assert!(!reason.contains(char::is_control), "{reason:?}");
}

/// What is read becomes part of an entry: it must be read from there as it was written.
fn is_stored_as_it_is<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(outcome: &T) {
    let stored = serde_json::to_vec(outcome).expect("invariant: an outcome is plain data");
    let again: T = serde_json::from_slice(&stored).unwrap_or_else(|e| panic!("{outcome:?}: {e}"));
    assert_eq!(again, *outcome);
}

/// `Retry-After`: eight bytes of clock, then the header's value.
///
/// # Panics
/// If the parser does what it must not.
pub fn retry_after(data: &[u8]) {
    let Some((clock, value)) = data.split_first_chunk::<8>() else { return };
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let headers = HeaderMap::from_iter([(RETRY_AFTER, value)]);
    let now = Time(i64::from_le_bytes(*clock));
    let read = amends_participants::retry_after_ms(&headers, now);
    assert_eq!(read, amends_participants::retry_after_ms(&headers, now), "the same twice");
}
