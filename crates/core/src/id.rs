//! Names of sagas and operations, and the idempotency keys derived from them.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The most bytes a saga id may have.
pub const SAGA_ID_BYTES_MAX: usize = 256;

/// The business id of a saga, such as `order:789`: UTF-8, 1 to 256 bytes, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SagaId(String);

/// Why a text is no saga id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// It has no bytes.
    #[error("an id must not be empty; name the business operation, such as order:789")]
    Empty,
    /// It has more than [`SAGA_ID_BYTES_MAX`] bytes.
    #[error("an id has at most {SAGA_ID_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// It has a control character at this byte offset.
    #[error("an id must not contain control characters; there is one at byte {0}")]
    Control(usize),
}

impl SagaId {
    /// Checks a text and makes it an id.
    ///
    /// # Errors
    /// [`BadId`] says what is wrong with the text.
    pub fn new(text: impl Into<String>) -> Result<Self, BadId> {
        let text = text.into();
        if text.is_empty() {
            return Err(BadId::Empty);
        }
        if text.len() > SAGA_ID_BYTES_MAX {
            return Err(BadId::TooLong(text.len()));
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(BadId::Control(at));
        }
        Ok(Self(text))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SagaId {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        Self::new(text)
    }
}

impl From<SagaId> for String {
    fn from(id: SagaId) -> Self {
        id.0
    }
}

impl fmt::Display for SagaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which of a step's two operations is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Does the step's work.
    Action,
    /// Undoes the action.
    Compensation,
}

impl OpKind {
    /// `action` or `compensation`, as in keys, headers and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Compensation => "compensation",
        }
    }
}

/// One operation of a saga: the index of its step in the definition, and which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpRef {
    /// Index into the definition's steps.
    pub step: usize,
    /// Action or compensation.
    pub kind: OpKind,
}

impl OpRef {
    /// The action of step `step`.
    #[must_use]
    pub fn action(step: usize) -> Self {
        Self { step, kind: OpKind::Action }
    }

    /// The compensation of step `step`.
    #[must_use]
    pub fn compensation(step: usize) -> Self {
        Self { step, kind: OpKind::Compensation }
    }
}

/// An idempotency key: `{saga id}:{step}:action`, `…:compensation`, or with a generation `…:action.2`.
///
/// It is stable over attempts, restarts and redrives (rule 11); only a person makes a new generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// Derives the key of an operation. `generation` is 1 until a person asks for a new key.
    #[must_use]
    pub fn new(saga: &SagaId, step: &str, kind: OpKind, generation: u32) -> Self {
        let kind = kind.as_str();
        if generation <= 1 {
            Self(format!("{saga}:{step}:{kind}"))
        } else {
            Self(format!("{saga}:{step}:{kind}.{generation}"))
        }
    }

    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 32 hexadecimal digits of the key's SHA-256: `${key_hash}`, for providers with short key fields.
    #[must_use]
    pub fn hash(&self) -> String {
        hex::encode(&Sha256::digest(self.0.as_bytes())[..16])
    }
}

/// Takes a key apart: the saga's id, the step's name, the operation and its generation.
///
/// Step names hold no `:`, ids may, so the text is read from its end. `None` if it is no key.
#[must_use]
pub fn parse_key(key: &str) -> Option<(SagaId, &str, OpKind, u32)> {
    let (rest, op) = key.rsplit_once(':')?;
    let (saga, step) = rest.rsplit_once(':')?;
    let (kind, generation) = match op.split_once('.') {
        None => (op, 1),
        Some((kind, n)) => {
            (kind, n.parse().ok().filter(|parsed: &u32| *parsed >= 2 && parsed.to_string() == n)?)
        }
    };
    let kind = match kind {
        "action" => OpKind::Action,
        "compensation" => OpKind::Compensation,
        _ => return None,
    };
    Some((SagaId::new(saga).ok()?, step, kind, generation))
}
