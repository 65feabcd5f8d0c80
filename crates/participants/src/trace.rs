//! W3C trace context: a saga's calls belong to the trace under which it was submitted.

use amends_core::request::Request;
use amends_core::{SagaId, Time};
use sha2::{Digest as _, Sha256};

/// The `traceparent` of a request: the trace of `parent` with a span of its own.
///
/// Without a (readable) parent all calls of a saga share a trace derived from its id, marked as sampled: participants that
/// sample as their caller does would otherwise record nothing. Nothing is drawn at random, so a call can be found again.
pub(crate) fn traceparent(
    parent: Option<&str>,
    saga: &SagaId,
    request: &Request,
    epoch: u64,
    now: Time,
) -> String {
    let mut text = String::with_capacity(55);
    text.push_str("00-");
    let flags = match parent.and_then(parse) {
        Some(parent) => {
            text.push_str(parent.trace);
            parent.flags
        }
        None => {
            push_digest(&mut text, 16, &[b"trace", saga.as_str().as_bytes()]);
            "01"
        }
    };
    text.push('-');
    let (attempt, epoch, at) = (request.attempt.to_be_bytes(), epoch.to_be_bytes(), now.0.to_be_bytes());
    let key = request.key.as_str().as_bytes();
    push_digest(&mut text, 8, &[b"span", key, &attempt, &[u8::from(request.is_query)], &epoch, &at]);
    text.push('-');
    text.push_str(flags);
    text
}

struct Parent<'a> {
    trace: &'a str,
    flags: &'a str,
}

fn parse(text: &str) -> Option<Parent<'_>> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let all_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let well_formed = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    // Later versions may append parts; the first four keep their meaning.
    let version_fits = version != "ff" && (version != "00" || parts.next().is_none());
    (well_formed && version_fits && !all_zero(trace) && !all_zero(span)).then_some(Parent { trace, flags })
}

/// Appends the first `bytes` bytes (at most 16) of a hash as hexadecimal digits. That they are all zero, which the format
/// forbids, is as likely as finding a collision.
fn push_digest(text: &mut String, bytes: usize, parts: &[&[u8]]) {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut digits = [0; 32];
    let digits = &mut digits[..2 * bytes];
    hex::encode_to_slice(&hash.finalize()[..bytes], digits).expect("two digits a byte");
    text.extend(digits.iter().map(|digit| char::from(*digit)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::tests::request;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    fn trace(parent: Option<&str>, attempt: u32) -> String {
        let saga = SagaId::new("order:1").expect("an id");
        traceparent(parent, &saga, &amends_core::request::Request { attempt, ..request() }, 7, Time(1_000))
    }

    #[test]
    fn the_trace_goes_on_with_a_new_span() {
        let child = trace(Some(PARENT), 1);
        assert!(
            child.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && child.ends_with("-00"),
            "{child}"
        );
        assert_ne!(child, PARENT);
        assert_ne!(child, trace(Some(PARENT), 2));
        assert!(parse(&child).is_some());
    }

    #[test]
    fn a_saga_without_a_trace_has_one_of_its_own() {
        let (first, second) = (trace(None, 1), trace(None, 2));
        assert_eq!(first[..36], second[..36]);
        assert_ne!(first[36..52], second[36..52]);
        assert!(parse(&first).is_some() && first.ends_with("-01"));
        assert_eq!(first, trace(None, 1));
    }

    #[test]
    fn what_is_no_traceparent_is_not_passed_on() {
        for bad in [
            "",
            "garbage",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
            assert!(trace(Some(bad), 1).ends_with("-01"), "{bad}");
        }
        assert!(parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
    }
}
