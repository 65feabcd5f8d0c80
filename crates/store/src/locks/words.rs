//! What a lock is named by and measured in, checked where it comes in.

use std::fmt;
use std::time::Duration;

use amends_core::{SAGA_ID_BYTES_MAX, SagaId};

/// The most bytes of a lock's name: as many as an id, so that a saga's id can be one.
pub const NAME_BYTES_MAX: usize = SAGA_ID_BYTES_MAX;
/// The most bytes of an owner: twice what a random one needs as text.
pub const OWNER_BYTES_MAX: usize = 128;
/// The most bytes of a label: it is shown, cut to a line.
pub const LABEL_BYTES_MAX: usize = 128;
/// The most bytes of a reason for letting a lock go: it is kept in the lock's record.
pub const REASON_BYTES_MAX: usize = 1_024;
/// The shortest lease: shorter ones end while an answer is on its way.
pub const TTL_MS_MIN: u64 = 100;
/// The longest lease: what must be held longer is a claim, which does not end with time.
pub const TTL_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// The highest token: above it JSON readers and Lua, which count in floating point, would give two numbers one name.
pub const TOKEN_MAX: u64 = (1 << 53) - 1;
/// How long a lock's record outlives its last lease. What is forgotten earlier could give a token again after the clock was set back;
/// what is never forgotten grows with every name ever used. A clock set back by more than a week is the limit.
pub const KEEP_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// A value that is none of a lock's: which, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Malformed {
    /// What it should have been: `name`, `owner`, `label`, `ttl`, `saga`, `abandon`.
    pub field: &'static str,
    /// What is wrong, and what to write.
    pub message: String,
}

impl Malformed {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self { field, message: message.into() }
    }
}

/// The name of a lock: of what is to be used by one at a time, such as `order:789`. UTF-8, 1 to 256 bytes, no control characters;
/// compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(String);

impl LockName {
    /// Checks a text and makes it a name.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong with it.
    pub fn new(text: impl Into<String>) -> Result<Self, Malformed> {
        // The same rule as for ids, so that one text can be both.
        let name =
            SagaId::new(text).map_err(|bad| Malformed::new("name", format!("the name of a lock: {bad}")))?;
        Ok(Self(name.into()))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who acquires: a random text, new for each acquisition. Whoever knows it can renew and release.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner(String);

impl Owner {
    /// Makes one that nobody can guess.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Takes one that the caller made: 1 to 128 bytes, no control characters.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong with it.
    pub fn new(text: impl Into<String>) -> Result<Self, Malformed> {
        let text = line("owner", text.into(), OWNER_BYTES_MAX)?;
        if text.is_empty() {
            return Err(Malformed::new(
                "owner",
                "`owner` must not be empty: take a random text, or leave it out",
            ));
        }
        Ok(Self(text))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who reads a log must not be able to release what others hold.
        f.write_str("Owner(…)")
    }
}

/// What a holder calls itself, for others to read: one line of up to [`LABEL_BYTES_MAX`] bytes, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label(String);

impl Label {
    /// Checks a text and makes it a label.
    ///
    /// # Errors
    /// [`Malformed`] if it is longer or has control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, Malformed> {
        line("label", text.into(), LABEL_BYTES_MAX).map(Self)
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How long a lease holds without renewal: [`TTL_MS_MIN`] to [`TTL_MS_MAX`] milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(u64);

impl Ttl {
    /// Checks a length of time.
    ///
    /// # Errors
    /// [`Malformed`] if it is too short or too long.
    pub fn new(length: Duration) -> Result<Self, Malformed> {
        Self::from_ms(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
    }

    /// Checks a number of milliseconds.
    ///
    /// # Errors
    /// [`Malformed`] if it is too short or too long.
    pub fn from_ms(ms: u64) -> Result<Self, Malformed> {
        if (TTL_MS_MIN..=TTL_MS_MAX).contains(&ms) {
            return Ok(Self(ms));
        }
        Err(Malformed::new(
            "ttl",
            "`ttl` must be between 100ms and 24h; what is held longer is a claim of a saga",
        ))
    }

    /// Milliseconds.
    #[must_use]
    pub fn ms(self) -> u64 {
        self.0
    }
}

/// A text of one line, of so many bytes at most.
pub(crate) fn line(field: &'static str, text: String, bytes_max: usize) -> Result<String, Malformed> {
    if text.len() > bytes_max {
        let message = format!("`{field}` has at most {bytes_max} bytes, this has {}", text.len());
        return Err(Malformed::new(field, message));
    }
    if text.chars().any(char::is_control) {
        return Err(Malformed::new(field, format!("`{field}` must not contain control characters")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_owners_and_lengths_are_checked() {
        for wrong in ["", "a\nb", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(LockName::new(wrong).unwrap_err().field, "name");
        }
        assert_eq!(LockName::new("x".repeat(NAME_BYTES_MAX)).unwrap().as_str().len(), NAME_BYTES_MAX);
        for wrong in ["", "a\tb", &"x".repeat(OWNER_BYTES_MAX + 1)] {
            assert_eq!(Owner::new(wrong).unwrap_err().field, "owner");
        }
        for wrong in [0, TTL_MS_MIN - 1, TTL_MS_MAX + 1, u64::MAX] {
            assert_eq!(Ttl::from_ms(wrong).unwrap_err().field, "ttl");
        }
        assert_eq!(Ttl::new(Duration::from_secs(5)).unwrap().ms(), 5_000);
    }

    #[test]
    fn owners_are_random_and_not_shown() {
        let owner = Owner::random();
        assert_ne!(owner, Owner::random());
        assert!(!format!("{owner:?}").contains(owner.as_str()));
    }
}
