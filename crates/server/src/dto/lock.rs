//! Locks.

use amends_core::definition::show_duration;
use amends_store::locks::{Ask, Because, Busy, Granted, Hold, LastRelease, LockName, LockView, Release};
use serde::Serialize;
use utoipa::ToSchema;

use super::Stamp;

/// A lock that is yours.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lease {
    name: String,
    /// The fencing token: higher than all before for this lock, below 2^53. Send it with every write; the resource refuses a lower one than the
    /// highest it saw.
    token: u64,
    /// How long it holds without renewal, such as `30s`. Count it from before the request was sent.
    lease: String,
    /// Who acquired it: needed to renew and release, if given then. Keep it to yourself.
    owner: String,
    /// When it was acquired, on the clock of the locks' store.
    since: Stamp,
}

impl Lease {
    pub(crate) fn new(ask: &Ask, granted: Granted) -> Self {
        Self {
            name: ask.name.to_string(),
            token: granted.token,
            lease: show_duration(granted.left_ms),
            owner: ask.owner.as_str().to_owned(),
            since: Stamp(granted.since),
        }
    }
}

/// A lease that goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseRenewed {
    pub(crate) name: String,
    pub(crate) token: u64,
    /// How long it holds from now on. Count it from before the request was sent.
    pub(crate) lease: String,
}

/// A lock that was let go.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LockReleased {
    name: String,
    token: u64,
    /// `released`.
    outcome: &'static str,
    /// The saga that recovers.
    #[serde(skip_serializing_if = "Option::is_none")]
    saga: Option<String>,
    /// Why nothing has to be recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    abandon: Option<String>,
}

impl LockReleased {
    pub(crate) fn new(hold: &Hold, outcome: Release, because: &Because) -> Self {
        let (saga, abandon) = parts(because);
        Self { name: hold.name.to_string(), token: hold.token, outcome: outcome.as_str(), saga, abandon }
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct LockHeld {
    /// What the holder calls itself; over HTTP the name of its token.
    holder: String,
    /// Since when, on the clock of the locks' store.
    since: Stamp,
    /// How long its lease lasts unless it is renewed.
    lease: String,
}

impl LockHeld {
    pub(crate) fn holder_or_nobody(&self) -> &str {
        if self.holder.is_empty() { "somebody without a name" } else { &self.holder }
    }

    pub(crate) fn since(&self) -> Stamp {
        self.since
    }

    pub(crate) fn lease(&self) -> &str {
        &self.lease
    }
}

impl From<Busy> for LockHeld {
    fn from(busy: Busy) -> Self {
        Self { holder: busy.label, since: Stamp(busy.since), lease: show_duration(busy.left_ms) }
    }
}

/// A lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lock)]
pub(crate) struct LockDto {
    name: String,
    /// The highest token given so far; null if none is remembered.
    token: Option<u64>,
    /// Who holds it; null if it is free.
    held: Option<LockHeld>,
    /// The last attempt to release it; null if there was none.
    last_release: Option<LastReleaseDto>,
}

impl LockDto {
    pub(crate) fn new(name: &LockName, view: LockView) -> Self {
        Self {
            name: name.to_string(),
            token: view.token,
            held: view.held.map(LockHeld::from),
            last_release: view.last_release.map(LastReleaseDto::from),
        }
    }
}

/// An attempt to release a lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LastRelease)]
pub(crate) struct LastReleaseDto {
    /// The token that was shown.
    token: u64,
    /// `released`, `lease_lost` or `owner_mismatch`.
    outcome: String,
    /// The saga that recovers.
    saga: Option<String>,
    /// Why nothing has to be recovered.
    abandon: Option<String>,
    /// When, on the clock of the locks' store.
    at: Stamp,
}

impl From<LastRelease> for LastReleaseDto {
    fn from(last: LastRelease) -> Self {
        let (saga, abandon) = parts(&last.because);
        Self { token: last.token, outcome: last.outcome, saga, abandon, at: Stamp(last.at) }
    }
}

fn parts(because: &Because) -> (Option<String>, Option<String>) {
    match because {
        Because::Saga(id) => (Some(id.to_string()), None),
        Because::Abandon(reason) => (None, Some(reason.clone())),
    }
}
