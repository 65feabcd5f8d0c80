//! Signatures of callbacks.

use std::sync::LazyLock;

use amends_core::Time;
use amends_participants::SigningKey;
use amends_participants::signature::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use http::{HeaderMap, HeaderValue};
use secrecy::SecretString;

/// When it is, in seconds.
const NOW_S: i64 = 1_614_265_330;

static KEY: LazyLock<SigningKey> = LazyLock::new(|| {
    let secret = SecretString::from("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    SigningKey::parse(&secret).expect("invariant: it is a secret")
});

/// Three lines (id, timestamp, signatures), then the body.
///
/// # Panics
/// If a signature that nobody made is accepted, or one that was made is not.
pub fn signature(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let secret = SecretString::from(text.to_owned());
        if let Err(reason) = SigningKey::parse(&secret) {
            assert!(text.is_empty() || text.len() < 8 || !reason.contains(text), "a secret is repeated");
        }
    }
    let mut parts = data.splitn(4, |byte| *byte == b'\n');
    let (Some(id), Some(timestamp), Some(signatures), Some(body)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let now = Time(NOW_S * 1_000);
    let values = [(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, timestamp), (WEBHOOK_SIGNATURE, signatures)];
    let mut headers = HeaderMap::new();
    for (name, value) in values {
        let Ok(value) = HeaderValue::from_bytes(value) else { return };
        headers.insert(name, value);
    }
    let accepted = KEY.verify(&headers, body, now).is_ok();
    let (Ok(id), Ok(signatures)) = (std::str::from_utf8(id), std::str::from_utf8(signatures)) else {
        return assert!(!accepted, "what is no text was accepted");
    };
    let made = KEY.sign(id, NOW_S, body);
    if accepted {
        let sent: i64 =
            std::str::from_utf8(timestamp).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        let genuine = KEY.sign(id, sent, body);
        assert!(signatures.split(' ').any(|signature| signature == genuine), "nobody made {signatures:?}");
    }
    // What is made is accepted, and nothing like it.
    let Ok(value) = HeaderValue::from_str(&made) else { return };
    headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(NOW_S));
    headers.insert(WEBHOOK_SIGNATURE, value);
    let is_ascii = headers.get(WEBHOOK_ID).is_some_and(|id| id.to_str().is_ok());
    assert_eq!(KEY.verify(&headers, body, now).is_ok(), is_ascii, "its own signature");
    let longer = [body, b" "].concat();
    assert!(KEY.verify(&headers, &longer, now).is_err(), "another body");
}
