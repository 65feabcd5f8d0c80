//! Whether the store takes work.

use std::sync::{Mutex, MutexGuard, PoisonError};

use amends_store::{Error, Kind};
use tokio::sync::Notify;

/// How the store fares, as far as its last calls told.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Writes are refused until a probe succeeds.
    unwritable: Mutex<Option<Error>>,
    /// Wakes the probe.
    pub(crate) fell_ill: Notify,
}

impl Health {
    fn state(&self) -> MutexGuard<'_, Option<Error>> {
        self.unwritable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error while it takes no work.
    pub(crate) fn takes_work(&self) -> Result<(), Error> {
        self.state().clone().map_or(Ok(()), Err)
    }

    /// Notes what an error says of the store as a whole.
    pub(crate) fn note(&self, error: &Error) {
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
    pub(crate) fn is_well(&self) {
        if self.state().take().is_some() {
            tracing::info!("the store takes work again");
        }
    }
}
