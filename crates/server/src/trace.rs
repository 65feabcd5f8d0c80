//! `traceparent` (W3C Trace Context): the trace that a saga's calls go on with.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;

use crate::App;

/// The request's trace, if it has one.
pub(crate) struct Trace(pub(crate) Option<String>);

impl FromRequestParts<App> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Self(traceparent(&parts.headers)))
    }
}

/// The trace to go on with; one that is not well-formed is ignored, as W3C Trace Context says.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let lower_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let well_formed = lower_hex(version, 2)
        && version != "ff"
        && lower_hex(trace, 32)
        && lower_hex(parent, 16)
        && lower_hex(flags, 2)
        && trace.bytes().any(|b| b != b'0')
        && parent.bytes().any(|b| b != b'0')
        && (version != "00" || parts.next().is_none());
    // Later versions may have more; what is passed on has the four parts that every version has.
    well_formed.then(|| format!("00-{trace}-{parent}-{flags}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_traces_are_passed_on() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            traceparent(&headers)
        };
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(read(good).as_deref(), Some(good));
        assert_eq!(read(&format!("01{}-more", &good[2..])).as_deref(), Some(good));
        for bad in [
            "",
            "00",
            &good[..54],
            &format!("{good}-more"),
            &good.replace("00-", "ff-"),
            &good.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
