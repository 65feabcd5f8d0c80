//! What the functions answer.

use amends_core::Time;
use amends_store::locks::{Acquired, Because, Busy, Granted, LastRelease, LockView, Lost, Release, Renewal};
use redis::Value;

use crate::client::{Error, Function};

/// A list of texts, read from its front. `None` anywhere: it is not of the shape it should have.
struct Words<'a>(std::slice::Iter<'a, Value>);

impl<'a> Words<'a> {
    fn of(answer: &'a Value) -> Option<Self> {
        match answer {
            Value::Array(items) => Some(Self(items.iter())),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        match self.0.next()? {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
            Value::SimpleString(text) => Some(text),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.text()?.parse().ok()
    }

    fn time(&mut self) -> Option<Time> {
        self.text()?.parse().ok().map(Time)
    }

    fn lost(&mut self) -> Option<Lost> {
        let word = self.text()?;
        [Lost::Expired, Lost::Released, Lost::Taken, Lost::Unknown]
            .into_iter()
            .find(|lost| lost.as_str() == word)
    }
}

/// Reads an answer of a function by `read`.
fn read<T>(
    function: &Function,
    answer: &Value,
    read: impl FnOnce(&mut Words<'_>) -> Option<T>,
) -> Result<T, Error> {
    Words::of(answer).as_mut().and_then(read).ok_or_else(|| Error::unreadable(function.name, answer))
}

pub(super) fn acquired(function: &Function, answer: &Value) -> Result<Acquired, Error> {
    read(function, answer, |words| match words.text()? {
        "held" => {
            let (token, left_ms, since) = (words.number()?, words.number()?, words.time()?);
            let again = words.text()? == "again";
            Some(Acquired::Held(Granted { token, since, left_ms, again }))
        }
        "busy" => {
            let (label, since, left_ms) = (words.text()?.to_owned(), words.time()?, words.number()?);
            Some(Acquired::Busy(Busy { label, since, left_ms }))
        }
        _ => None,
    })
}

pub(super) fn renewal(function: &Function, answer: &Value) -> Result<Renewal, Error> {
    read(function, answer, |words| match words.text()? {
        "renewed" => Some(Renewal::Renewed { left_ms: words.number()? }),
        "lost" => Some(Renewal::Lost(words.lost()?)),
        "owner_mismatch" => Some(Renewal::OwnerMismatch),
        _ => None,
    })
}

pub(super) fn release(function: &Function, answer: &Value) -> Result<Release, Error> {
    read(function, answer, |words| match words.text()? {
        "released" => Some(Release::Released),
        "lease_lost" => Some(Release::LeaseLost(words.lost()?)),
        "owner_mismatch" => Some(Release::OwnerMismatch),
        _ => None,
    })
}

pub(super) fn view(function: &Function, answer: &Value) -> Result<LockView, Error> {
    read(function, answer, |words| {
        let is_held = match words.text()? {
            "unused" => return Some(LockView::default()),
            "held" => true,
            "free" => false,
            _ => return None,
        };
        let token = words.number()?;
        let (label, since, left_ms) = (words.text()?.to_owned(), words.time()?, words.number()?);
        let held = is_held.then_some(Busy { label, since, left_ms });
        let last_release = match words.text()? {
            "" => None,
            last => {
                let (token, outcome) = (last.parse().ok()?, words.text()?.to_owned());
                let because = Because::from_parts(words.text()?, words.text()?)?;
                Some(LastRelease { token, outcome, because, at: words.time()? })
            }
        };
        Some(LockView { token: Some(token), held, last_release })
    })
}
