//! What is begun: what runs now, and how it is undone.

use std::time::Duration;

use crate::commands::{Commands, Guard, append_guards, keys_of};

/// How long a record may be pending unless it says otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// The longest it may be pending: a year.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What [`super::Log::begin`] writes and runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    rollback: Commands,
    rollback_guard: Vec<Guard>,
    forward: Commands,
    forward_guard: Vec<Guard>,
    timeout: Duration,
}

impl Intent {
    /// An intent that is undone by these commands, at least one, and runs nothing now.
    #[must_use]
    pub fn new(rollback: Commands) -> Self {
        Self {
            rollback,
            rollback_guard: Vec::new(),
            forward: Commands::default(),
            forward_guard: Vec::new(),
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// Bounds that must hold for the rollback to run.
    #[must_use]
    pub fn rollback_guard(mut self, guard: Vec<Guard>) -> Self {
        self.rollback_guard = guard;
        self
    }

    /// Commands that run together with the record being written.
    #[must_use]
    pub fn forward(mut self, commands: Commands) -> Self {
        self.forward = commands;
        self
    }

    /// Bounds that must hold for it to begin.
    #[must_use]
    pub fn forward_guard(mut self, guard: Vec<Guard>) -> Self {
        self.forward_guard = guard;
        self
    }

    /// After so long a scanner undoes it. Cut to 1 ms … [`TIMEOUT_MAX`].
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), TIMEOUT_MAX);
        self
    }

    /// After how long a scanner undoes it.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn keys(&self) -> Vec<&[u8]> {
        keys_of(&[(&self.forward, &self.forward_guard), (&self.rollback, &self.rollback_guard)])
    }

    pub(super) fn arguments(&self) -> Vec<Vec<u8>> {
        let mut arguments = vec![super::threshold(self.timeout)];
        append_guards(&self.forward_guard, &mut arguments);
        self.forward.append_to(&mut arguments);
        append_guards(&self.rollback_guard, &mut arguments);
        self.rollback.append_to(&mut arguments);
        arguments
    }
}
