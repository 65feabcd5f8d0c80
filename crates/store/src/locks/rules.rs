//! The rules of locks as functions of a record: for backends that read a record, decide, and write it in one transaction.

use amends_core::Time;

use super::port::{
    Acquired, Ask, Because, Busy, Granted, Hold, LastRelease, LockView, Lost, Release, Renewal,
};
use super::words::{TOKEN_MAX, Ttl};
use crate::{Error, Kind};

/// What is kept of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The highest token given.
    pub token: u64,
    /// Who got it.
    pub owner: String,
    /// What it calls itself; may be empty.
    pub label: String,
    /// When it was given.
    pub since: Time,
    /// When the lease ends unless it is renewed.
    pub expires_at: Time,
    /// How it was ended before that, or that its end was told to its holder: it stays so, also if the clock is set back.
    pub ended: Option<Ended>,
    /// The last attempt to release it.
    pub last_release: Option<LastRelease>,
}

/// An end that is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its holder released it.
    Released,
    /// Its holder was told that it had expired.
    Expired,
}

impl Ended {
    /// How it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }

    /// Reads what was stored.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "released" => Some(Self::Released),
            "expired" => Some(Self::Expired),
            _ => None,
        }
    }
}

impl Record {
    fn is_live(&self, now: Time) -> bool {
        self.ended.is_none() && self.expires_at > now
    }

    fn prolong(&mut self, ttl: Ttl, now: Time) -> u64 {
        self.expires_at = self.expires_at.max(now.plus_ms(ttl.ms()));
        self.expires_at.since_ms(now)
    }

    fn busy(&self, now: Time) -> Busy {
        Busy { label: self.label.clone(), since: self.since, left_ms: self.expires_at.since_ms(now) }
    }
}

/// Acquires. `floor` is at least as high as every token of a record that was forgotten. The record is to be written if it is
/// not `Busy`.
///
/// # Errors
/// [`Kind::Refused`] once the tokens of this name are used up, which no clock and no load comes to.
pub fn acquire(record: &mut Option<Record>, floor: u64, ask: &Ask, now: Time) -> Result<Acquired, Error> {
    if let Some(record) = record
        && record.is_live(now)
    {
        if record.owner != ask.owner.as_str() {
            return Ok(Acquired::Busy(record.busy(now)));
        }
        let left_ms = record.prolong(ask.ttl, now);
        return Ok(Acquired::Held(Granted {
            token: record.token,
            since: record.since,
            left_ms,
            again: true,
        }));
    }
    let highest = record.as_ref().map_or(floor, |record| record.token.max(floor));
    let token = highest.saturating_add(1).max(u64::try_from(now.0).unwrap_or(0));
    if token > TOKEN_MAX {
        let message =
            format!("the tokens of the lock {} are used up: its clock or its record is wrong", ask.name);
        return Err(Error::new(Kind::Refused, message));
    }
    *record = Some(Record {
        token,
        owner: ask.owner.as_str().to_owned(),
        label: ask.label.as_str().to_owned(),
        since: now,
        expires_at: now.plus_ms(ask.ttl.ms()),
        ended: None,
        last_release: record.take().and_then(|record| record.last_release),
    });
    Ok(Acquired::Held(Granted { token, since: now, left_ms: ask.ttl.ms(), again: false }))
}

/// What a holder's token and owner are worth.
enum Standing {
    Live,
    Lost(Lost),
    OwnerMismatch,
}

fn standing(record: &Record, hold: &Hold, now: Time) -> Standing {
    if hold.token < record.token {
        return Standing::Lost(Lost::Taken);
    }
    if hold.token > record.token {
        return Standing::Lost(Lost::Unknown);
    }
    if hold.owner.as_ref().is_some_and(|owner| owner.as_str() != record.owner) {
        return Standing::OwnerMismatch;
    }
    match record.ended {
        Some(Ended::Released) => Standing::Lost(Lost::Released),
        Some(Ended::Expired) => Standing::Lost(Lost::Expired),
        None if record.expires_at <= now => Standing::Lost(Lost::Expired),
        None => Standing::Live,
    }
}

/// Renews. The record is to be written if it was renewed.
pub fn renew(record: &mut Option<Record>, hold: &Hold, ttl: Ttl, now: Time) -> Renewal {
    let Some(record) = record else { return Renewal::Lost(Lost::Unknown) };
    match standing(record, hold, now) {
        Standing::Live => Renewal::Renewed { left_ms: record.prolong(ttl, now) },
        Standing::Lost(lost) => Renewal::Lost(lost),
        Standing::OwnerMismatch => Renewal::OwnerMismatch,
    }
}

/// Releases. The record is to be written, if there is one.
pub fn release(record: &mut Option<Record>, hold: &Hold, because: &Because, now: Time) -> Release {
    let Some(record) = record else { return Release::LeaseLost(Lost::Unknown) };
    let outcome = match standing(record, hold, now) {
        Standing::Live => {
            record.ended = Some(Ended::Released);
            Release::Released
        }
        // A second call: the first one's answer, and its record stays.
        Standing::Lost(Lost::Released) => return Release::Released,
        Standing::Lost(Lost::Expired) => {
            record.ended = Some(Ended::Expired);
            Release::LeaseLost(Lost::Expired)
        }
        Standing::Lost(lost @ (Lost::Taken | Lost::Unknown)) => Release::LeaseLost(lost),
        Standing::OwnerMismatch => Release::OwnerMismatch,
    };
    record.last_release = Some(LastRelease {
        token: hold.token,
        outcome: outcome.as_str().to_owned(),
        because: because.clone(),
        at: now,
    });
    outcome
}

/// Shows.
#[must_use]
pub fn view(record: Option<&Record>, now: Time) -> LockView {
    let Some(record) = record else { return LockView::default() };
    LockView {
        token: Some(record.token),
        held: record.is_live(now).then(|| record.busy(now)),
        last_release: record.last_release.clone(),
    }
}
