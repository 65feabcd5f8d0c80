//! Signatures after the Standard Webhooks specification: HMAC-SHA256 over `id.timestamp.body`.
//!
//! They sign the calls to participants that have a secret, and prove that a callback comes from one.

use std::fmt;

use amends_core::Time;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use sha2::Sha256;

/// Names the message; the same for each time it is sent again.
pub const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
/// When it was sent, in seconds since 1970.
pub const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// One or more signatures, separated by spaces, each `v1,` and base64.
pub const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// How far a signature's time may be from ours, in either direction; what was recorded longer ago cannot be played back.
pub const TOLERANCE_S: i64 = 5 * 60;

/// How many signatures of one message are looked at: rotation needs two, an attacker would like to have many tried.
pub const SIGNATURES_MAX: usize = 16;

/// A secret shared with a participant. Its `Debug` shows nothing; its memory is wiped when it is dropped.
pub struct SigningKey(SecretSlice<u8>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey([not shown])")
    }
}

impl SigningKey {
    /// Reads a secret: `whsec_` and base64, or any text, whose bytes are the key.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
    pub fn parse(secret: &SecretString) -> Result<Self, String> {
        let bytes = match secret.expose_secret().strip_prefix("whsec_") {
            Some(encoded) => STANDARD
                .decode(encoded)
                .map_err(|_| "begins with whsec_, but what follows is not base64".to_owned())?,
            None => secret.expose_secret().as_bytes().to_vec(),
        };
        if bytes.is_empty() {
            return Err("is empty; use 24 to 64 random bytes".into());
        }
        Ok(Self(bytes.into()))
    }

    /// The value of `webhook-signature` for a message.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let tag = self.mac(id, &timestamp_s.to_string(), body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(tag))
    }

    /// Checks that the headers prove that whoever shares this key sent exactly this body, within [`TOLERANCE_S`] of `now`.
    ///
    /// It does not tell whether the message was seen before: that needs the memory of a store.
    ///
    /// # Errors
    /// [`Unverified`] says what is missing or does not fit.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<(), Unverified> {
        let text = |name: &HeaderName| {
            let value = headers.get(name).ok_or_else(|| Unverified::Missing(name.clone()))?;
            value.to_str().map_err(|_| Unverified::Missing(name.clone()))
        };
        let (id, timestamp, signatures) =
            (text(&WEBHOOK_ID)?, text(&WEBHOOK_TIMESTAMP)?, text(&WEBHOOK_SIGNATURE)?);
        let sent_s: i64 = timestamp.parse().map_err(|_| Unverified::Time)?;
        if now.0.div_euclid(1_000).saturating_sub(sent_s).saturating_abs() > TOLERANCE_S {
            return Err(Unverified::Time);
        }
        let mac = self.mac(id, timestamp, body);
        signatures
            .split(' ')
            .take(SIGNATURES_MAX)
            .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
            // The comparison takes the same time wherever the first difference is.
            .any(|tag| mac.clone().verify_slice(&tag).is_ok())
            .then_some(())
            .ok_or(Unverified::Signature)
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).expect("HMAC takes keys of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

/// Why a message does not count as sent by whom it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// A header is missing or unreadable.
    #[error(
        "the header {0} is missing or unreadable; a signed message has webhook-id, webhook-timestamp and webhook-signature"
    )]
    Missing(HeaderName),
    /// Its time is unreadable or too far from ours.
    #[error("webhook-timestamp must be in seconds since 1970 and within 5 minutes of this server's clock")]
    Time,
    /// No signature fits.
    #[error("no signature in webhook-signature fits this message and a configured secret")]
    Signature,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NOW: i64 = 1_614_265_330;

    fn key(secret: &str) -> SigningKey {
        SigningKey::parse(&secret.into()).expect("a key")
    }

    fn headers(id: &str, timestamp: &str, signature: &str) -> HeaderMap {
        let value = |text: &str| text.parse().expect("a header value");
        HeaderMap::from_iter([
            (WEBHOOK_ID, value(id)),
            (WEBHOOK_TIMESTAMP, value(timestamp)),
            (WEBHOOK_SIGNATURE, value(signature)),
        ])
    }

    /// The vector that the specification's libraries share.
    #[test]
    fn the_published_vector_holds() {
        let body = br#"{"test": 2432232314}"#;
        let signature = key(SECRET).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", NOW, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn the_reference_library_agrees_both_ways() {
        let now_s = i64::try_from(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs(),
        )
        .expect("fits");
        let raw = "any text as it is";
        for (ours, theirs) in [
            (key(SECRET), standardwebhooks::Webhook::new(SECRET).expect("a secret")),
            (key(raw), standardwebhooks::Webhook::from_bytes(raw.into()).expect("a secret")),
        ] {
            for body in [b"".as_slice(), b"{}", "{\"amount\": \"7 \u{20ac}\"}".as_bytes()] {
                let signature = ours.sign("order%3A1", now_s, body);
                let signed = headers("order%3A1", &now_s.to_string(), &signature);
                theirs.verify(body, &signed).expect("theirs verifies ours");

                let signature = theirs.sign("order%3A1", now_s, body).expect("signed");
                let signed = headers("order%3A1", &now_s.to_string(), &signature);
                assert_eq!(ours.verify(&signed, body, Time(now_s * 1_000)), Ok(()));
            }
        }
    }

    #[test]
    fn whatever_is_changed_does_not_verify() {
        let (key, body, at) = (key(SECRET), b"{}".as_slice(), NOW.to_string());
        let signature = key.sign("m1", NOW, body);
        let verify = |headers: &HeaderMap, body: &[u8]| key.verify(headers, body, Time(NOW * 1_000));
        assert_eq!(verify(&headers("m1", &at, &signature), body), Ok(()));
        assert_eq!(verify(&headers("m2", &at, &signature), body), Err(Unverified::Signature));
        assert_eq!(verify(&headers("m1", &at, &signature), b"{} "), Err(Unverified::Signature));
        assert_eq!(
            verify(&headers("m1", &(NOW + 1).to_string(), &signature), body),
            Err(Unverified::Signature)
        );
        for bad in ["", "v1,", "v1", "v1,AAAA", "v1a,AAAA", &signature[3..], &signature.replace("v1", "v2")] {
            assert_eq!(verify(&headers("m1", &at, bad), body), Err(Unverified::Signature), "{bad}");
        }
        let other = super::SigningKey::parse(&"another secret".into()).expect("a key");
        let signed = headers("m1", &at, &signature);
        assert_eq!(other.verify(&signed, body, Time(NOW * 1_000)), Err(Unverified::Signature));
    }

    #[test]
    fn one_fitting_signature_of_several_is_enough() {
        let (key, at) = (key(SECRET), NOW.to_string());
        let fitting = key.sign("m1", NOW, b"{}");
        let rotated = format!(
            "v1,AAAA v1a,x {} {fitting}",
            super::SigningKey::parse(&"old".into()).expect("a key").sign("m1", NOW, b"{}")
        );
        assert_eq!(key.verify(&headers("m1", &at, &rotated), b"{}", Time(NOW * 1_000)), Ok(()));
        let flood = format!("{}{fitting}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        assert_eq!(
            key.verify(&headers("m1", &at, &flood), b"{}", Time(NOW * 1_000)),
            Err(Unverified::Signature)
        );
    }

    #[test]
    fn old_and_future_messages_are_refused() {
        let key = key(SECRET);
        let signed = headers("m1", &NOW.to_string(), &key.sign("m1", NOW, b"{}"));
        for (now_s, expected) in [
            (NOW - TOLERANCE_S - 1, Err(Unverified::Time)),
            (NOW - TOLERANCE_S, Ok(())),
            (NOW + TOLERANCE_S, Ok(())),
            (NOW + TOLERANCE_S + 1, Err(Unverified::Time)),
        ] {
            assert_eq!(key.verify(&signed, b"{}", Time(now_s * 1_000)), expected, "{now_s}");
        }
        for at in ["", "now", "1614265330.5", "99999999999999999999", "-9223372036854775808"] {
            let signed = headers("m1", at, "v1,AAAA");
            assert_eq!(key.verify(&signed, b"{}", Time(NOW * 1_000)), Err(Unverified::Time), "{at}");
        }
    }

    #[test]
    fn missing_headers_are_named() {
        for name in [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE] {
            let mut signed = headers("m1", &NOW.to_string(), "v1,AAAA");
            signed.remove(&name);
            assert_eq!(key(SECRET).verify(&signed, b"{}", Time(NOW * 1_000)), Err(Unverified::Missing(name)));
        }
    }

    #[test]
    fn unusable_secrets_are_refused_without_being_shown() {
        for (secret, expected) in [("whsec_canary!", "not base64"), ("", "is empty"), ("whsec_", "is empty")]
        {
            let error = SigningKey::parse(&secret.into()).expect_err(secret);
            assert!(error.contains(expected) && !error.contains("canary"), "{error}");
        }
        assert_eq!(format!("{:?}", key("canary")), "SigningKey([not shown])");
    }
}
