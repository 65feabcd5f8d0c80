//! What can go wrong between here and Redis, by what the caller should do about it.

use redis::{RedisError, Value};

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The server cannot be reached; nothing was sent.
    Unreachable,
    /// It was sent, and no answer came: it may have been carried out.
    Unknown,
    /// The server takes no call for the moment (a slow script, loading, a fail-over); nothing was carried out.
    Busy,
    /// No memory is left for writes; nothing was carried out.
    OutOfMemory,
    /// The server takes no writes (a replica, too few replicas, its disk failed); nothing was carried out.
    Unwritable,
    /// The server asks for a user and a password, or for others; nothing was carried out.
    Unauthenticated,
    /// The user may not do that; nothing was carried out.
    Denied,
    /// The keys do not share a hash slot; nothing was carried out.
    CrossSlot,
    /// The function, or the script, is not there; nothing was carried out.
    NoFunction,
    /// The server, or a function, refused the call for what it says; nothing was carried out.
    Refused,
    /// An answer, or what is stored, is not of the shape it should have.
    Unreadable,
}

impl ErrorKind {
    /// Whether the call certainly changed nothing.
    #[must_use]
    pub fn did_nothing(self) -> bool {
        match self {
            Self::Unreachable
            | Self::Busy
            | Self::OutOfMemory
            | Self::Unwritable
            | Self::Unauthenticated
            | Self::Denied
            | Self::CrossSlot
            | Self::NoFunction
            | Self::Refused => true,
            Self::Unknown | Self::Unreadable => false,
        }
    }
}

/// An error, in plain words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What to act on.
    pub kind: ErrorKind,
    /// What is wrong, where, and what to do.
    pub message: String,
}

impl Error {
    /// Makes one.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An answer that no version of the function gives.
    #[must_use]
    pub fn unreadable(function: &str, answer: &Value) -> Self {
        let shown: String = format!("{answer:?}").chars().take(200).collect();
        Self::new(ErrorKind::Unreadable, format!("{function} answered what nobody expects: {shown}"))
    }

    pub(crate) fn cross_slot(first: &[u8], other: &[u8]) -> Self {
        let (first, other) = (String::from_utf8_lossy(first), String::from_utf8_lossy(other));
        Self::new(
            ErrorKind::CrossSlot,
            format!(
                "the keys {first:?} and {other:?} are in different slots of the cluster, and one call can touch one slot only: give \
                 them the same hash tag, such as {{order:1}}"
            ),
        )
    }

    /// The same of a command that followed another: that one was carried out.
    pub(super) fn after_the_call(self) -> Self {
        Self { kind: ErrorKind::Unknown, ..self }
    }

    /// While a connection is made: nothing was sent.
    pub(super) fn while_connecting(address: &str, error: &RedisError) -> Self {
        let reason = Self::from_reply(error);
        match reason.kind {
            ErrorKind::Unknown | ErrorKind::Unreachable => Self::new(
                ErrorKind::Unreachable,
                format!(
                    "redis at {address} cannot be reached ({}): check that it runs and the URL",
                    in_words(error)
                ),
            ),
            ErrorKind::Busy
            | ErrorKind::OutOfMemory
            | ErrorKind::Unwritable
            | ErrorKind::Unauthenticated
            | ErrorKind::Denied
            | ErrorKind::CrossSlot
            | ErrorKind::NoFunction
            | ErrorKind::Refused
            | ErrorKind::Unreadable => reason,
        }
    }

    /// After a call was sent.
    pub(super) fn from_reply(error: &RedisError) -> Self {
        let words = in_words(error);
        let kind = match error.code() {
            Some("NOSCRIPT") => ErrorKind::NoFunction,
            Some("BUSY" | "LOADING" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN") => ErrorKind::Busy,
            Some("OOM") => ErrorKind::OutOfMemory,
            Some("READONLY" | "NOREPLICAS" | "MISCONF") => ErrorKind::Unwritable,
            Some("NOAUTH" | "WRONGPASS") => ErrorKind::Unauthenticated,
            Some("NOPERM") => ErrorKind::Denied,
            Some("CROSSSLOT") => ErrorKind::CrossSlot,
            Some(_) if words.contains("Function not found") => ErrorKind::NoFunction,
            Some(_) => ErrorKind::Refused,
            // While a connection is made, the client says so in words of its own.
            None if error.kind() == redis::ErrorKind::AuthenticationFailed => ErrorKind::Unauthenticated,
            None if error.is_connection_refusal() => ErrorKind::Unreachable,
            None => ErrorKind::Unknown,
        };
        match kind {
            ErrorKind::Unknown => Self::new(
                kind,
                format!("redis gave no answer ({words}): whether the call was carried out is not known"),
            ),
            ErrorKind::Unreachable
            | ErrorKind::Busy
            | ErrorKind::OutOfMemory
            | ErrorKind::Unwritable
            | ErrorKind::Unauthenticated
            | ErrorKind::Denied
            | ErrorKind::CrossSlot
            | ErrorKind::NoFunction
            | ErrorKind::Refused
            | ErrorKind::Unreadable => Self::new(kind, format!("redis: {words}")),
        }
    }
}

/// What the server said, or what happened. Bounded: an error reply may quote arguments at any length.
fn in_words(error: &RedisError) -> String {
    let words = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    };
    words.chars().take(500).collect()
}

/// The text of an answer; empty if it is none.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}
