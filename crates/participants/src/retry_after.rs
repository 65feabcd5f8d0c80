//! `Retry-After`: seconds, or a date.

use std::time::{Duration, SystemTime};

use amends_core::Time;
use http::HeaderMap;
use http::header::RETRY_AFTER;

/// The wait that an answer asks for in milliseconds; a date in the past is no wait. `None`: it asks for none, or unreadably.
#[must_use]
pub fn retry_after_ms(headers: &HeaderMap, now: Time) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // So many digits that they do not fit are still a number of seconds: the longest one.
        return Some(text.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now.0).ok()?);
    let wait = date.duration_since(now).unwrap_or_default();
    Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        // 1994-11-06T08:49:37Z is 784111777 s.
        let now = Time(784_111_770_500);
        for (text, expected) in [
            ("0", Some(0)),
            ("120", Some(120_000)),
            (" 7 ", Some(7_000)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(6_500)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(6_500)),
            ("Sun Nov  6 08:49:37 1994", Some(6_500)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().expect("a header value"));
            assert_eq!(retry_after_ms(&headers, now), expected, "{text:?}");
        }
        assert_eq!(retry_after_ms(&HeaderMap::new(), now), None);
    }
}
