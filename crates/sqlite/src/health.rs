//! Whether the store takes work: shared by the writer, the readers, the checkpointer and the ports.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use amends_store::Error;

use crate::error::Trouble;

/// The state of the file, as far as it is known.
#[derive(Debug)]
pub(crate) struct Health {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
enum State {
    Well,
    /// Writes are refused until a probe finds room.
    Full(Error),
    /// Writes are refused until the store is opened again. `unsure`: a commit was cut off, so that reads cannot
    /// tell whether it was written either.
    Broken {
        error: Error,
        unsure: bool,
    },
    /// New work is refused; what is in flight may be written.
    Corrupt(Error),
}

impl Health {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::new(State::Well) }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error unless entries can be written.
    pub(crate) fn writable(&self) -> Result<(), Error> {
        match &*self.state() {
            State::Well | State::Corrupt(_) => Ok(()),
            State::Full(error) | State::Broken { error, .. } => Err(error.clone()),
        }
    }

    /// An error unless new work can be taken.
    pub(crate) fn takes_work(&self) -> Result<(), Error> {
        match &*self.state() {
            State::Well => Ok(()),
            State::Full(error) | State::Broken { error, .. } | State::Corrupt(error) => Err(error.clone()),
        }
    }

    /// An error if what reads say of the last commit may be wrong.
    pub(crate) fn sure(&self) -> Result<(), Error> {
        match &*self.state() {
            State::Broken { error, unsure: true } => Err(error.clone()),
            State::Well | State::Full(_) | State::Broken { unsure: false, .. } | State::Corrupt(_) => Ok(()),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        matches!(&*self.state(), State::Full(_))
    }

    /// There is room again.
    pub(crate) fn has_room(&self) {
        let mut state = self.state();
        if matches!(*state, State::Full(_)) {
            *state = State::Well;
            tracing::info!(file = %self.path.display(), "the store has room again and takes work");
        }
    }

    /// Notes what an error of SQLite means for the file, and gives what the caller is told.
    pub(crate) fn note(&self, source: &rusqlite::Error) -> Error {
        let trouble = Trouble::of(source);
        let error = trouble.error(&self.path, source);
        match trouble {
            Trouble::Passing | Trouble::Unfit => {}
            Trouble::Full => self.worsen(State::Full(error.clone())),
            Trouble::Disk => self.worsen(State::Broken { error: error.clone(), unsure: false }),
            Trouble::Corrupt => self.worsen(State::Corrupt(error.clone())),
        }
        error
    }

    /// Notes that a commit failed on its way to the disk.
    pub(crate) fn note_cut_off(&self, source: &rusqlite::Error) {
        let error = Trouble::Disk.error(&self.path, source);
        self.worsen(State::Broken { error, unsure: true });
    }

    fn worsen(&self, new: State) {
        let mut state = self.state();
        if new.rank() > state.rank() {
            if let State::Full(error) | State::Broken { error, .. } | State::Corrupt(error) = &new {
                tracing::error!("{error}");
            }
            *state = new;
        }
    }
}

impl State {
    /// A worse state is never replaced by a better one, but for a disk that has room again.
    fn rank(&self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Full(_) => 1,
            Self::Corrupt(_) => 2,
            Self::Broken { unsure: false, .. } => 3,
            Self::Broken { unsure: true, .. } => 4,
        }
    }
}
