//! Whether a store on a server takes work, by what its last calls told.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::{Error, Kind};

/// How a store fares. It is in memory alone: a store that is opened again takes work until it is told otherwise.
#[derive(Debug, Default)]
pub struct Writable {
    /// Writes are refused until a probe succeeds.
    unwritable: Mutex<Option<Error>>,
    /// Wakes the probe.
    pub fell_ill: Notify,
}

impl Writable {
    fn state(&self) -> MutexGuard<'_, Option<Error>> {
        self.unwritable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it takes work.
    ///
    /// # Errors
    /// What was told when it stopped.
    pub fn takes_work(&self) -> Result<(), Error> {
        self.state().clone().map_or(Ok(()), Err)
    }

    /// Notes what an error says of the store as a whole.
    pub fn note(&self, error: &Error) {
        match error.kind {
            Kind::Unwritable => {
                let mut state = self.state();
                if state.is_none() {
                    tracing::error!("{error}");
                    *state = Some(error.clone());
                    self.fell_ill.notify_one();
                }
            }
            Kind::Unavailable | Kind::Indeterminate | Kind::Corrupt | Kind::Refused => {}
        }
    }

    /// A write succeeded.
    pub fn is_well(&self) {
        if self.state().take().is_some() {
            tracing::info!("the store takes work again");
        }
    }
}
