//! Whether the store takes work.

use std::sync::{Mutex, PoisonError};

use amends_store::Error;

/// How the store fares, as far as its last calls told.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<State>);

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Well,
    /// Writes are refused, by the server or for lack of replicas, until a probe succeeds.
    Unwritable(Error),
    /// It went back in time; only people can say how to go on.
    Lost(Error),
}

/// What has to be tried again until the store is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ailment {
    Unwritable,
    Lost,
}

impl Health {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error while it takes no work.
    pub(super) fn takes_work(&self) -> Result<(), Error> {
        match &*self.state() {
            State::Well => Ok(()),
            State::Unwritable(error) | State::Lost(error) => Err(error.clone()),
        }
    }

    /// An error if nothing may be written at all.
    pub(super) fn is_whole(&self) -> Result<(), Error> {
        match &*self.state() {
            State::Well | State::Unwritable(_) => Ok(()),
            State::Lost(error) => Err(error.clone()),
        }
    }

    pub(super) fn ailment(&self) -> Option<Ailment> {
        match &*self.state() {
            State::Well => None,
            State::Unwritable(_) => Some(Ailment::Unwritable),
            State::Lost(_) => Some(Ailment::Lost),
        }
    }

    /// Notes that writes are refused. True: that is news, and a probe has to be started.
    pub(super) fn cannot_write(&self, error: &Error) -> bool {
        let mut state = self.state();
        match &*state {
            State::Well => {
                tracing::error!("{error}");
                *state = State::Unwritable(error.clone());
                true
            }
            State::Unwritable(_) | State::Lost(_) => false,
        }
    }

    /// Notes that the store went back in time. True: a probe has to be started.
    pub(super) fn lost(&self, error: &Error) -> bool {
        let mut state = self.state();
        let news = matches!(&*state, State::Well);
        if !matches!(&*state, State::Lost(_)) {
            tracing::error!("ALARM: {error}");
        }
        *state = State::Lost(error.clone());
        news
    }

    /// A probe succeeded.
    pub(super) fn is_well(&self, cured: Ailment) {
        let mut state = self.state();
        let was = match &*state {
            State::Well => return,
            State::Unwritable(_) => Ailment::Unwritable,
            State::Lost(_) => Ailment::Lost,
        };
        if was == cured {
            tracing::info!("the store takes work again");
            *state = State::Well;
        }
    }
}
