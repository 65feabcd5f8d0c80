//! A bound that must hold in the same moment in which commands run.

use super::command::{Malformed, integer};
use super::text;

/// A bound. Without a field it is about the string (or, for [`Guard::Exists`], whatever) under the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// A field of a hash, or a string, is exactly this.
    Equals {
        /// The key.
        key: Vec<u8>,
        /// The field, if it is about one.
        field: Option<Vec<u8>>,
        /// What it must be.
        value: Vec<u8>,
    },
    /// A field of a hash, or a string, is an integer of at least this.
    AtLeast {
        /// The key.
        key: Vec<u8>,
        /// The field, if it is about one.
        field: Option<Vec<u8>>,
        /// The least it may be, above `i64::MIN`.
        min: i64,
    },
    /// A key, or a field of a hash, exists.
    Exists {
        /// The key.
        key: Vec<u8>,
        /// The field, if it is about one.
        field: Option<Vec<u8>>,
    },
}

impl Guard {
    /// Reads words: `EQ key [field] value`, `MIN key [field] integer`, `EXISTS key [field]`.
    ///
    /// # Errors
    /// If they are none of these.
    pub fn new(words: &[Vec<u8>]) -> Result<Self, Malformed> {
        let wrong = |reason: &str| Malformed {
            command: text::join(words).chars().take(80).collect(),
            reason: reason.to_owned(),
        };
        let name = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let (key, field, last) = match (name.as_slice(), words) {
            (b"EQ" | b"MIN", [_, key, last]) => (key, None, last),
            (b"EQ" | b"MIN", [_, key, field, last]) => (key, Some(field.clone()), last),
            (b"EXISTS", [_, key]) => (key, None, key),
            (b"EXISTS", [_, key, field]) => (key, Some(field.clone()), key),
            _ => {
                return Err(wrong(
                    "a guard is EQ key [field] value, MIN key [field] integer, or EXISTS key [field]",
                ));
            }
        };
        if key.is_empty() {
            return Err(wrong("the key is empty; name one"));
        }
        let key = key.clone();
        match name.as_slice() {
            b"EQ" => Ok(Self::Equals { key, field, value: last.clone() }),
            b"EXISTS" => Ok(Self::Exists { key, field }),
            _ => match integer(last) {
                Some(min) if min > i64::MIN => Ok(Self::AtLeast { key, field, min }),
                Some(_) | None => Err(wrong("the last word must be an integer of 64 bits")),
            },
        }
    }

    /// Reads a text, quoted as [`super::Command::parse`] takes it.
    ///
    /// # Errors
    /// If the quotes do not fit, or as [`Guard::new`].
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        Self::new(&text::split(text)?)
    }

    /// The key it looks at.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Equals { key, .. } | Self::AtLeast { key, .. } | Self::Exists { key, .. } => key,
        }
    }

    /// Its words.
    #[must_use]
    pub fn words(&self) -> Vec<Vec<u8>> {
        let (name, key, field, last) = match self {
            Self::Equals { key, field, value } => ("EQ", key, field, Some(value.clone())),
            Self::AtLeast { key, field, min } => ("MIN", key, field, Some(min.to_string().into_bytes())),
            Self::Exists { key, field } => ("EXISTS", key, field, None),
        };
        let mut words = vec![name.as_bytes().to_vec(), key.clone()];
        words.extend(field.clone());
        words.extend(last);
        words
    }
}

impl std::fmt::Display for Guard {
    /// As [`Guard::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text::join(&self.words()))
    }
}
