//! What an error of Redis means for a store.

use amends_store::{Error, Kind};

use crate::client::{Error as CallError, ErrorKind};

/// What a call was to do: a read that got no answer changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Reads,
    Writes,
}

/// As the callers of a store are told.
pub(super) fn store_error(error: CallError, call: Call) -> Error {
    let CallError { kind, message } = error;
    match kind {
        ErrorKind::Unreachable | ErrorKind::Busy | ErrorKind::NoFunction => {
            Error::new(Kind::Unavailable, message)
        }
        ErrorKind::Unknown => match call {
            Call::Reads => Error::new(Kind::Unavailable, message),
            Call::Writes => Error::new(Kind::Indeterminate, message),
        },
        ErrorKind::OutOfMemory => unwritable(
            &message,
            "raise maxmemory, or free memory; keep maxmemory-policy at noeviction; the store goes on by itself then",
        ),
        ErrorKind::Unwritable => unwritable(&message, remedy(&message)),
        ErrorKind::Unauthenticated => unwritable(&message, "correct user and password in the store's URL"),
        ErrorKind::Denied => unwritable(
            &message,
            "give the user +@all -@dangerous +info +fcall +function, or +eval +evalsha, on the keys ~amends:*",
        ),
        // A function refuses nothing that is as it should be.
        ErrorKind::CrossSlot | ErrorKind::Refused => Error::new(
            Kind::Corrupt,
            format!("{message}; look whether something else writes to the keys amends:*"),
        ),
        ErrorKind::Unreadable => match call {
            Call::Reads => Error::new(Kind::Corrupt, message),
            Call::Writes => Error::new(Kind::Indeterminate, message),
        },
    }
}

fn remedy(message: &str) -> &'static str {
    if message.contains("READONLY") {
        "it is a replica: name the primary in the store's URL, or promote it"
    } else if message.contains("NOREPLICAS") {
        "too few replicas follow it (min-replicas-to-write): start them, or lower it"
    } else {
        "its disk failed (MISCONF): see the server's log and the space on its disk; it takes writes again after a save that succeeded"
    }
}

fn unwritable(message: &str, remedy: &str) -> Error {
    Error::new(Kind::Unwritable, format!("{message}: the store takes no writes; {remedy}"))
}
