//! What handlers answer when it is not simply done.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a handler did not do what it was called for.
///
/// **An error is unknown, unless the handler says otherwise**: `?` on any error makes [`Failure::unknown`], because who sees a time-out or
/// a broken connection cannot tell what happened on the other side. Only the handler knows that something was refused
/// ([`Failure::rejected`]), or certainly not begun ([`Failure::not_executed`]). A panic, and a handler that overruns its time-out, are
/// unknown too.
///
/// ```
/// # use amends::Failure;
/// async fn charge(balance: i64, amount: i64) -> Result<(), Failure> {
///     if balance < amount {
///         return Err(Failure::rejected("insufficient funds"));
///     }
///     let _port: u16 = "not a port".parse()?; // unknown: never undone on a guess
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Failure(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Rejected(String),
    NotExecuted { reason: String, retry_after: Option<Duration> },
    Unknown(String),
}

impl Failure {
    /// It is refused for good: nothing was done, and nothing will be done under this key. Of an action, the saga is undone; of a
    /// compensation, it needs a person. `reason` is what people read; the first 500 bytes of it are kept.
    pub fn rejected(reason: impl fmt::Display) -> Self {
        Self(Kind::Rejected(reason.to_string()))
    }

    /// Certainly nothing was done by this call, and another one may succeed: it is retried as the step says.
    pub fn not_executed(reason: impl fmt::Display) -> Self {
        Self(Kind::NotExecuted { reason: reason.to_string(), retry_after: None })
    }

    /// As [`Failure::not_executed`], and not to be tried again before this time has passed.
    pub fn not_executed_for(reason: impl fmt::Display, retry_after: Duration) -> Self {
        Self(Kind::NotExecuted { reason: reason.to_string(), retry_after: Some(retry_after) })
    }

    /// Nobody can tell whether it was done: what `?` makes of an error. It is asked about with the step's query, and done again only where that
    /// is safe.
    pub fn unknown(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Kind::Unknown(words(error.into().as_ref())))
    }
}

impl Failure {
    pub(crate) fn into_reason(self) -> String {
        match self.0 {
            Kind::Rejected(reason) | Kind::NotExecuted { reason, .. } | Kind::Unknown(reason) => reason,
        }
    }
}

/// Every error is unknown. `Failure` itself is no [`Error`], so that there is no second way from one to the other.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::unknown(error)
    }
}

/// An error with what it came from.
fn words(error: &(dyn Error + Send + Sync)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.ends_with(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    words
}

/// What a query found out about an operation, over all calls that were made under its key.
///
/// A query that cannot tell returns a [`Failure`], whichever: it is asked again, and nothing is concluded from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<F> {
    /// It was done, and this is what it answered.
    Done(F),
    /// Nothing was done, nothing will be done under this key, and what is on its way will be refused as well.
    Rejected(String),
    /// Nothing is known under this key *so far*: a call may still be on its way.
    NeverSeen,
    /// Nothing was done, and what arrives under this key will be refused from now on.
    Sealed,
    /// It was begun and is not finished.
    InProgress,
}

/// What a fenced compensation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// The action had been done, and is undone now.
    Undone,
    /// The action was never done, and a call of it that arrives later will be refused.
    NeverDone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(failure: Failure) -> String {
        match failure.0 {
            Kind::Unknown(reason) => reason,
            Kind::Rejected(_) | Kind::NotExecuted { .. } => panic!("{failure:?}"),
        }
    }

    #[test]
    fn a_question_mark_means_unknown_whatever_the_error() {
        #[derive(Debug, thiserror::Error)]
        #[error("the charge timed out")]
        struct Outer(#[source] std::num::ParseIntError);

        fn failing(which: u8) -> Result<(), Failure> {
            match which {
                0 => Err("x".parse::<u8>().map_err(Outer).unwrap_err())?,
                1 => Err("a text")?,
                _ => Err(Box::<dyn Error + Send + Sync>::from("boxed"))?,
            }
            Ok(())
        }
        assert_eq!(unknown(failing(0).unwrap_err()), "the charge timed out: invalid digit found in string");
        assert_eq!(unknown(failing(1).unwrap_err()), "a text");
        assert_eq!(unknown(failing(2).unwrap_err()), "boxed");
    }
}
