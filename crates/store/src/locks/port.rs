//! The port, and what is said over it.

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use super::words::{Label, LockName, Malformed, Owner, REASON_BYTES_MAX, Ttl, line};
use crate::Error;

/// Lease locks. Each method is one atomic step at the backend, measured on the backend's clock.
///
/// Tokens of a name only grow: after a release, an expiry and a restart, and after a fail-over that lost writes as far as the backend's
/// clocks agree (a token is at least the time in milliseconds when it was given). They are lower than 2^53.
///
/// After [`crate::Kind::Indeterminate`] each method may be called again with the same values, and answers as the first call did or
/// would have: a lock acquired again by its owner keeps its token, a renewal only ever prolongs, a release that happened is told so.
#[async_trait]
pub trait Locks: Send + Sync {
    /// Takes a lock that nobody holds, under a token higher than all before. Its holder's own owner again: the same token, and the
    /// lease lasts at least `ttl` from now. A crash of the caller leaves the lease to end by itself.
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, Error>;

    /// Prolongs a lease to at least `ttl` from now. A lease that is over stays over: acquire anew, under a new token.
    async fn renew(&self, hold: &Hold, ttl: Ttl) -> Result<Renewal, Error>;

    /// Ends a lease before its time, and records the outcome with its reason in the lock's record: the last one only. A stale token
    /// or another owner changes nothing but that record.
    async fn release(&self, hold: &Hold, because: &Because) -> Result<Release, Error>;

    /// What is known of a lock. One that was never used is free, without token and release.
    async fn show(&self, name: &LockName) -> Result<LockView, Error>;
}

/// A request for a lock.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The lock.
    pub name: LockName,
    /// Who asks. The same owner again means the same acquisition.
    pub owner: Owner,
    /// How long the lease holds without renewal.
    pub ttl: Ttl,
    /// What the holder calls itself.
    pub label: Label,
}

impl Ask {
    /// Asks under a new random owner. Sent again, the same value is the same acquisition.
    #[must_use]
    pub fn new(name: LockName, ttl: Ttl) -> Self {
        Self { name, owner: Owner::random(), ttl, label: Label::default() }
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is the asker's.
    Held(Granted),
    /// Somebody else holds it.
    Busy(Busy),
}

/// A lease as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The fencing token: send it with every write; the resource refuses a lower one than the highest it saw.
    pub token: u64,
    /// Since when, on the backend's clock.
    pub since: Time,
    /// How long it lasted from the moment the backend answered, in milliseconds. Count it from before the request was sent.
    pub left_ms: u64,
    /// It was this owner's already.
    pub again: bool,
}

/// Who holds a lock, as far as others may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The holder's label; empty if it gave none.
    pub label: String,
    /// Since when, on the backend's clock.
    pub since: Time,
    /// How long its lease lasts unless it is renewed, in milliseconds.
    pub left_ms: u64,
}

/// What a holder shows to renew and release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The lock.
    pub name: LockName,
    /// The owner that acquired it. `None`: the token alone is checked, which is less: tokens can be guessed.
    pub owner: Option<Owner>,
    /// The token it was given.
    pub token: u64,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// It goes on.
    Renewed {
        /// How long from the moment the backend answered, in milliseconds. Count it from before the request was sent.
        left_ms: u64,
    },
    /// The lease is over.
    Lost(Lost),
    /// The token is that of the last lease, the owner is not.
    OwnerMismatch,
}

/// How a lease came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Its time was over; nobody has taken the lock since.
    Expired,
    /// It was released.
    Released,
    /// Another one has a higher token.
    Taken,
    /// No such token was given, as far as the backend knows: another name, or the backend lost its last writes.
    Unknown,
}

impl Lost {
    /// One word for logs, records and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Taken => "taken",
            Self::Unknown => "unknown",
        }
    }
}

/// The outcome of a release. A backend that does not answer is an [`Error`]; the lease then ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The lock is free, by this call or by an earlier one of the same holder.
    Released,
    /// There was nothing to release any more.
    LeaseLost(Lost),
    /// The token is that of the last lease, the owner is not. Nothing was released.
    OwnerMismatch,
}

impl Release {
    /// One word for logs, records and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::LeaseLost(_) => "lease_lost",
            Self::OwnerMismatch => "owner_mismatch",
        }
    }
}

/// Why a lock may be let go: who recovers if what was done under it stays half done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// This saga, which is durable, covers what was done.
    Saga(SagaId),
    /// Nothing has to be recovered, for this reason.
    Abandon(String),
}

impl Because {
    /// Checks a reason: not blank, one line of up to [`REASON_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong with it.
    pub fn abandon(reason: impl Into<String>) -> Result<Self, Malformed> {
        let reason = line("abandon", reason.into(), REASON_BYTES_MAX)?;
        if reason.trim().is_empty() {
            return Err(Malformed::new(
                "abandon",
                "`abandon` needs the reason why nothing has to be recovered",
            ));
        }
        Ok(Self::Abandon(reason))
    }

    /// Its kind in one word, and its text: how it is stored.
    #[must_use]
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Saga(id) => ("saga", id.as_str()),
            Self::Abandon(reason) => ("abandon", reason),
        }
    }

    /// Reads what [`Because::parts`] gave. `None`: it is none.
    #[must_use]
    pub fn from_parts(kind: &str, text: &str) -> Option<Self> {
        match kind {
            "saga" => SagaId::new(text).ok().map(Self::Saga),
            "abandon" => Some(Self::Abandon(text.to_owned())),
            _ => None,
        }
    }
}

/// What is known of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockView {
    /// The highest token given so far. `None`: none that is remembered.
    pub token: Option<u64>,
    /// Who holds it. `None`: it is free.
    pub held: Option<HeldBy>,
    /// The last attempt to release it.
    pub last_release: Option<LastRelease>,
}

/// Who holds a lock: the same as others are told.
pub type HeldBy = Busy;

/// An attempt to release a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRelease {
    /// The token that was shown.
    pub token: u64,
    /// `released`, `lease_lost` or `owner_mismatch`.
    pub outcome: String,
    /// Why it was to be released.
    pub because: Because,
    /// When, on the backend's clock.
    pub at: Time,
}
