//! What came out of runs, for whoever started them.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::checkers::Violation;
use crate::options::Options;
use crate::run::{Outcome, run};
use crate::sabotage::Sabotage;

/// What came out of the run of one seed.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What must not be, and was. Empty: all is well.
    pub violations: Vec<Violation>,
    /// Of everything that happened, in order: two runs of one seed have the same.
    pub digest: u64,
    /// How many things happened.
    pub events: u64,
    /// The last of what happened, a line each; everything, if that was asked for.
    pub lines: Vec<String>,
    outcome: Outcome,
}

/// Runs one seed.
///
/// `whole_trace`: keep a line for everything that happened, rather than the last few hundred.
#[must_use]
pub fn run_seed(seed: u64, whole_trace: bool) -> Report {
    Report::of(seed, run(Options { whole_trace, ..Options::drawn(seed) }))
}

/// Runs one seed with a bug planted into its world: a test of the checkers.
#[must_use]
pub fn run_sabotaged(seed: u64, sabotage: Sabotage) -> Report {
    Report::of(seed, run(Options::provoking(seed, sabotage)))
}

impl Report {
    fn of(seed: u64, mut outcome: Outcome) -> Self {
        Self {
            seed,
            violations: std::mem::take(&mut outcome.violations),
            digest: outcome.digest,
            events: outcome.events,
            lines: std::mem::take(&mut outcome.lines),
            outcome,
        }
    }

    /// The command that repeats it.
    #[must_use]
    pub fn command(&self) -> String {
        format!("cargo xtask sim --seed {}", self.seed)
    }

    /// Why it failed, and how to repeat it; `None` if it did not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if self.violations.is_empty() {
            return None;
        }
        let violations: Vec<String> = self.violations.iter().map(ToString::to_string).collect();
        Some(format!("seed {}:\n  {}\nto repeat it: {}", self.seed, violations.join("\n  "), self.command()))
    }
}

/// What came out of many runs together.
#[derive(Debug, Default)]
pub struct Totals {
    /// How many runs.
    pub runs: u64,
    /// How many of them violated an invariant.
    pub failed: u64,
    /// How many sagas.
    pub sagas: u64,
    /// How they ended, or where they rest, by status.
    pub by_status: BTreeMap<&'static str, u64>,
    /// How many effects at participants.
    pub effects: u64,
    /// How many calls of the store's ports.
    pub store_calls: u64,
    /// How many commits.
    pub commits: u64,
    /// How many crashes of a node.
    pub crashes: u64,
    /// Faults of the store, by method and kind.
    pub faults: BTreeMap<(&'static str, &'static str), u64>,
    /// What participants did with calls.
    pub calls: BTreeMap<&'static str, u64>,
    /// How many things happened.
    pub events: u64,
    /// How much virtual time went by, in milliseconds.
    pub virtual_ms: u64,
    states: HashSet<u64>,
}

impl Totals {
    /// Counts a run in.
    pub fn add(&mut self, report: &Report) {
        let outcome = &report.outcome;
        let tally = &outcome.tally;
        self.runs += 1;
        self.failed += u64::from(!report.violations.is_empty());
        self.sagas += outcome.sagas.len() as u64;
        for status in &outcome.rested {
            *self.by_status.entry(status.as_str()).or_default() += 1;
        }
        self.effects += outcome.effects.len() as u64;
        self.store_calls += tally.store_calls;
        self.commits += tally.commits;
        self.crashes += tally.crashes;
        for (fault, count) in &tally.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (what, count) in &tally.manners {
            *self.calls.entry(what).or_default() += count;
        }
        self.events += report.events;
        self.virtual_ms += outcome.virtual_ms;
        self.states.extend(&tally.states);
    }

    /// Counts others in.
    pub fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.failed += other.failed;
        self.sagas += other.sagas;
        for (status, count) in other.by_status {
            *self.by_status.entry(status).or_default() += count;
        }
        self.effects += other.effects;
        self.store_calls += other.store_calls;
        self.commits += other.commits;
        self.crashes += other.crashes;
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (what, count) in other.calls {
            *self.calls.entry(what).or_default() += count;
        }
        self.events += other.events;
        self.virtual_ms += other.virtual_ms;
        self.states.extend(other.states);
    }

    /// How many different states sagas were in, times and counts aside.
    #[must_use]
    pub fn states(&self) -> usize {
        self.states.len()
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.virtual_ms / 3_600_000;
        writeln!(f, "runs            {} ({} failed), {hours} hours of virtual time", self.runs, self.failed)?;
        let list = |counts: Vec<String>| counts.join(", ");
        let by_status = list(self.by_status.iter().map(|(status, n)| format!("{n} {status}")).collect());
        writeln!(f, "sagas           {} ({by_status})", self.sagas)?;
        writeln!(f, "effects         {}", self.effects)?;
        writeln!(f, "store calls     {}, of them {} commits", self.store_calls, self.commits)?;
        writeln!(f, "crashes         {}", self.crashes)?;
        let mut by_kind: BTreeMap<&str, u64> = BTreeMap::new();
        for ((_, kind), count) in &self.faults {
            *by_kind.entry(kind).or_default() += count;
        }
        let by_kind = list(by_kind.iter().map(|(kind, n)| format!("{n} {kind}")).collect());
        writeln!(f, "store faults    {} ({by_kind})", self.faults.values().sum::<u64>())?;
        let mut by_method: BTreeMap<&str, u64> = BTreeMap::new();
        for ((method, _), count) in &self.faults {
            *by_method.entry(method).or_default() += count;
        }
        let by_method = list(by_method.iter().map(|(method, n)| format!("{n} {method}")).collect());
        writeln!(f, "  at            {by_method}")?;
        let calls = list(self.calls.iter().map(|(what, n)| format!("{n} {what}")).collect());
        writeln!(f, "participants    {} calls ({calls})", self.calls.values().sum::<u64>())?;
        write!(f, "distinct states {}", self.states())
    }
}
