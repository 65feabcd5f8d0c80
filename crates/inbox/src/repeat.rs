//! Repeating what the database ended for reasons of its own.

use std::time::Duration;

use crate::Error;

/// How often [`Attempts`] lets a transaction be tried. Of transactions that end each other one always gets through; who needs more turns than this meets something that
/// waiting does not cure.
pub const ATTEMPTS_MAX: u32 = 16;

/// The longest pause before a new attempt.
const PAUSE_MAX_MS: u64 = 100;

/// Counts the attempts at one transaction, and says how long to pause between them.
///
/// ```
/// # use amends_inbox::{Attempts, Error};
/// # async fn once() -> Result<u32, Error> { Ok(7) }
/// # async fn sleep(_: std::time::Duration) {}
/// # async fn repeated() -> Result<u32, Error> {
/// let mut attempts = Attempts::default();
/// loop {
///     match once().await {      // begins a transaction, and commits it or rolls it back
///         Err(e) => match attempts.pause_after(&e) {
///             Some(pause) => sleep(pause).await,
///             None => return Err(e),
///         },
///         Ok(answer) => return Ok(answer),
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Attempts {
    failed: u32,
}

impl Attempts {
    /// How long to pause before the whole transaction is tried again, or `None` if that is no use: the error is not [retryable](Error::is_retryable), or
    /// [`ATTEMPTS_MAX`] attempts were made.
    pub fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        self.failed += 1;
        let pause_ms = PAUSE_MAX_MS.min(1 << self.failed.min(10));
        (error.is_retryable() && self.failed < ATTEMPTS_MAX).then_some(Duration::from_millis(pause_ms))
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let busy = || Error::from(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(5), None));
        let mut attempts = Attempts::default();
        let pauses: Vec<_> = std::iter::from_fn(|| attempts.pause_after(&busy())).collect();
        assert_eq!(pauses.len() as u32, ATTEMPTS_MAX - 1);
        assert_eq!((pauses[0].as_millis(), pauses[pauses.len() - 1].as_millis()), (2, 100));
        assert_eq!(Attempts::default().pause_after(&Error::Gone { key: "k".into() }), None);
    }
}
