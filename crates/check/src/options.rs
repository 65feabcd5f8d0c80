//! How far an exploration goes.

use std::time::Duration;

/// The most faults that can be asked for: beyond this the number of ways to go wrong is beyond any machine.
pub const FAULTS_MAX: u32 = 8;

/// How far an exploration goes, and what it may cost.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many faults may happen in one story; default 3, at most [`FAULTS_MAX`]. What counts as one is in the crate's
    /// documentation.
    pub faults: u32,
    /// How many different states one exploration may hold; default 2,000,000, about 100 bytes each. One that reaches it is
    /// unfinished.
    pub states_max: usize,
    /// How long the whole check may take; default one minute. What is not explored by then is unfinished.
    pub time_max: Duration,
    /// How many explorations run at the same time; default: as many as the machine has processors.
    pub threads: usize,
    /// Whether to explore what each declared guarantee is needed for; default yes. Without it `trust` is empty.
    pub trust: bool,
    /// Leaves nothing out: every order of independent steps, however many. Slower, with the same findings; the tests of this
    /// crate compare both.
    pub every_order: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            faults: 3,
            states_max: 2_000_000,
            time_max: Duration::from_secs(60),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            trust: true,
            every_order: false,
        }
    }
}
