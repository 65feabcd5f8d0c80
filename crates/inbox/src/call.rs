//! What arrives: under which key, with what in it, and how long it is remembered.

use std::fmt;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// The longest key. The engine's keys (an id of 256 bytes, a step's name, the operation) have at most 350.
pub const KEY_BYTES_MAX: usize = 512;

/// An idempotency key: 1 to [`KEY_BYTES_MAX`] bytes of text without control characters, compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(String);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an idempotency key is UTF-8 text of 1 to {KEY_BYTES_MAX} bytes without control characters: send the one the engine gave"
)]
pub struct BadKey;

impl Key {
    /// A key as it is.
    ///
    /// # Errors
    /// If it is empty, too long, or has control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, BadKey> {
        let text = text.into();
        let is_key = !text.is_empty() && text.len() <= KEY_BYTES_MAX && !text.chars().any(char::is_control);
        if is_key { Ok(Self(text)) } else { Err(BadKey) }
    }

    /// A key as it stands in `Idempotency-Key`, `Amends-Action-Key` or a path: percent-encoded.
    ///
    /// # Errors
    /// If what it stands for is no key.
    pub fn from_header(value: &str) -> Result<Self, BadKey> {
        let text = percent_encoding::percent_decode_str(value).decode_utf8().map_err(|_| BadKey)?;
        Self::new(text)
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What was asked for under a key, as 32 bytes: the same key with another request is refused, and nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestHash([u8; 32]);

impl RequestHash {
    /// The SHA-256 of these parts, each behind its length as eight bytes, the highest first. Give method, path and body as they came: the engine sends the same
    /// bytes with each attempt. Leave out what changes from attempt to attempt (`Amends-Attempt`, `Amends-Expires`, `traceparent`).
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// For how long a record is kept, from the call that made it, or from the last call to undo what it records.
///
/// Longer than the longest life of a saga: a compensation finds by the record what it has to undo, and a late action finds by it that it is
/// too late. The default is 30 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keep(u32);

const DAY_S: u64 = 86_400;
/// Ten years: a record that is kept for longer is meant to be kept for ever, and would never be noticed if it was not.
const KEEP_MAX_S: u64 = 3_650 * DAY_S;

impl Keep {
    /// For as long as an operation with this `key_ttl` and `verify_for` may still be sent or asked about, and a day: the shortest time
    /// that is safe. Below a second it is rounded up; it is at most ten years.
    #[must_use]
    pub fn at_least(key_ttl: Duration, verify_for: Duration) -> Self {
        let seconds = key_ttl.as_secs().saturating_add(verify_for.as_secs()).saturating_add(2 + DAY_S);
        Self(u32::try_from(seconds.min(KEEP_MAX_S)).unwrap_or(u32::MAX))
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs(self) -> u32 {
        self.0
    }
}

impl Default for Keep {
    fn default() -> Self {
        Self::at_least(Duration::from_secs(24 * 3_600), Duration::from_secs(28 * 24 * 3_600))
    }
}

/// An action that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    pub(crate) key: Key,
    pub(crate) request: RequestHash,
    pub(crate) keep: Keep,
}

impl Action {
    /// `key` is its `Idempotency-Key`.
    #[must_use]
    pub fn new(key: Key, request: RequestHash) -> Self {
        Self { key, request, keep: Keep::default() }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Keeps its record for another time than the default.
    #[must_use]
    pub fn keep(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }
}

/// A compensation that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compensation {
    pub(crate) key: Key,
    pub(crate) action_key: Key,
    pub(crate) request: RequestHash,
    pub(crate) keep: Keep,
}

impl Compensation {
    /// `key` is its `Idempotency-Key`, `action_key` the `Amends-Action-Key`: that of what it undoes.
    #[must_use]
    pub fn new(key: Key, action_key: Key, request: RequestHash) -> Self {
        Self { key, action_key, request, keep: Keep::default() }
    }

    /// Its own key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The key of the action that it undoes.
    #[must_use]
    pub fn action_key(&self) -> &Key {
        &self.action_key
    }

    /// Keeps its record, and that of the action, for another time than the default.
    #[must_use]
    pub fn keep(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_decoded_and_what_is_none_is_refused() {
        assert_eq!(
            Key::from_header("order:7%2F%C3%A4:slot:action").unwrap().as_str(),
            "order:7/ä:slot:action"
        );
        assert_eq!(Key::new("k".repeat(KEY_BYTES_MAX)).unwrap().as_str().len(), KEY_BYTES_MAX);
        for bad in ["", "a%00", "a%0A", "%ff", &"k".repeat(KEY_BYTES_MAX + 1)] {
            assert_eq!(Key::from_header(bad), Err(BadKey), "{bad:?}");
        }
    }

    #[test]
    fn requests_that_only_look_alike_when_joined_differ() {
        assert_ne!(RequestHash::of(&[b"order-1", b"0"]), RequestHash::of(&[b"order-", b"10"]));
        assert_eq!(RequestHash::of(&[b"a", b"b"]), RequestHash::of(&[b"a", b"b"]));
    }

    #[test]
    fn record_outlives_the_key_and_its_verification() {
        let keep = Keep::at_least(Duration::from_secs(10), Duration::from_millis(500));
        assert!(u64::from(keep.as_secs()) > 10 + DAY_S);
        assert_eq!(u64::from(Keep::at_least(Duration::MAX, Duration::MAX).as_secs()), KEEP_MAX_S);
        assert_eq!(u64::from(Keep::default().as_secs()) / DAY_S, 30);
    }
}
