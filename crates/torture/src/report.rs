//! What a long run gave.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use amends_shop::Verdict;
use serde::Serialize;

/// The result of a long run; its JSON is the last line that the program prints with `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Which kind of store.
    pub store: &'static str,
    /// What chance was drawn from.
    pub seed: u64,
    /// How often the engine was killed.
    pub kills: u32,
    /// How many of these times it was killed while it was starting up.
    pub kills_at_start: u32,
    /// How often it was stopped (SIGSTOP) and continued.
    pub stops: u32,
    /// How many of these stops outlasted its lease.
    pub lapses: u32,
    /// What the store's own server suffered, by name.
    pub server_faults: BTreeMap<&'static str, u32>,
    /// Sagas submitted, all of which were acknowledged.
    pub sagas: usize,
    /// Sagas that completed.
    pub completed: usize,
    /// Sagas that were undone.
    pub compensated: usize,
    /// Sagas that wait for a person. None should.
    pub dead: usize,
    /// Sagas that have not ended. None should.
    pub unknown: usize,
    /// Effects lost.
    pub lost: usize,
    /// Effects that happened more than once.
    pub doubled: usize,
    /// Effects of completed sagas that were undone.
    pub wrongly_undone: usize,
    /// Effects that no completed saga knows, and that were not undone.
    pub left_over: usize,
    /// Entries `taken_over` in all journals.
    pub take_overs: usize,
    /// What was seen of several nodes, where there were several.
    pub nodes: Option<Nodes>,
    /// Faults met, by name.
    pub faults: BTreeMap<&'static str, u32>,
    /// How long it took.
    pub seconds: f64,
    /// What is wrong, in words.
    #[serde(skip)]
    pub findings: Vec<String>,
}

/// What a run of several nodes gave beside its books.
#[derive(Debug, Clone, Serialize)]
pub struct Nodes {
    /// How many there were.
    pub count: usize,
    /// How many of those that were stopped past their lease said so when they went on.
    pub said: u32,
    /// The longest that a saga was without an owner, or due and nobody's, while the database was there.
    pub longest_without_owner_ms: u64,
    /// How often that was looked at.
    pub looks: usize,
    /// Entries by a node that had lost the saga to another one. There should be none.
    pub out_of_turn: usize,
    /// Take-overs under an epoch smaller than the one before. There should be none.
    pub epochs_backwards: usize,
}

impl Report {
    /// Takes over what the books say.
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        let Verdict {
            completed,
            compensated,
            dead,
            unknown,
            lost,
            wrongly_undone,
            doubled,
            left_over,
            findings,
        } = verdict;
        self.completed = completed;
        self.compensated = compensated;
        self.dead = dead;
        self.unknown = unknown;
        self.lost = lost;
        self.doubled = doubled;
        self.wrongly_undone = wrongly_undone;
        self.left_over = left_over;
        self.findings = findings;
    }

    /// Whether everything is as it should be, and enough happened that this means something.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.shortcomings().is_empty()
    }

    /// What is wrong with the run, or missing from it.
    #[must_use]
    pub fn shortcomings(&self) -> Vec<String> {
        let mut all = self.findings.clone();
        let zeros = [
            ("dead", self.dead),
            ("unknown", self.unknown),
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("wrongly undone", self.wrongly_undone),
            ("left over", self.left_over),
        ];
        let nodes = self.nodes.iter();
        let of_nodes = nodes.flat_map(|nodes| {
            let silent = self.lapses.abs_diff(nodes.said) as usize;
            [
                ("written out of turn", nodes.out_of_turn),
                ("epochs backwards", nodes.epochs_backwards),
                ("lapsed without a word", silent),
            ]
        });
        let zeros = zeros.into_iter().chain(of_nodes);
        all.extend(
            zeros.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name}: {n}, must be 0")),
        );
        // A run in which nothing happened would be clean too.
        let floors = [
            ("sagas completed", self.completed, self.kills as usize),
            ("sagas compensated", self.compensated, 1),
            ("sagas taken over", self.take_overs, self.kills as usize / 4),
        ];
        for (name, n, least) in floors {
            if n < least {
                all.push(format!("{name}: {n}, too few to show anything: at least {least}"));
            }
        }
        all
    }

    /// The report for people.
    #[must_use]
    pub fn words(&self) -> String {
        let mut out = format!(
            "{} kills ({} at start-up), {} stops ({} past the lease) of an engine on {} in {:.0} s (seed {})\n",
            self.kills, self.kills_at_start, self.stops, self.lapses, self.store, self.seconds, self.seed
        );
        let counts = [
            ("sagas", self.sagas),
            ("completed", self.completed),
            ("compensated", self.compensated),
            ("taken over", self.take_overs),
            ("dead", self.dead),
            ("unknown", self.unknown),
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("wrongly undone", self.wrongly_undone),
            ("left over", self.left_over),
        ];
        for (name, n) in counts {
            let _ = writeln!(out, "  {name:<38} {n:>6}");
        }
        if let Some(nodes) = &self.nodes {
            let Nodes { count, said, longest_without_owner_ms, looks, out_of_turn, epochs_backwards } = nodes;
            let _ = writeln!(
                out,
                "  {count} nodes; {said} said that their lease was over; {out_of_turn} entries out of turn, {epochs_backwards} epochs backwards\n  \
                 longest without an owner: {longest_without_owner_ms} ms ({looks} looks)"
            );
        }
        for (name, n) in &self.faults {
            let _ = writeln!(out, "  fault: {name:<31} {n:>6}");
        }
        for (name, n) in &self.server_faults {
            let _ = writeln!(out, "  store: {name:<31} {n:>6}");
        }
        for finding in self.shortcomings() {
            let _ = writeln!(out, "FOUND {finding}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Report {
        Report {
            store: "sqlite",
            seed: 1,
            kills: 4,
            kills_at_start: 1,
            stops: 1,
            lapses: 0,
            server_faults: BTreeMap::new(),
            sagas: 20,
            completed: 15,
            compensated: 5,
            dead: 0,
            unknown: 0,
            lost: 0,
            doubled: 0,
            wrongly_undone: 0,
            left_over: 0,
            take_overs: 9,
            nodes: None,
            faults: BTreeMap::new(),
            seconds: 1.0,
            findings: Vec::new(),
        }
    }

    #[test]
    fn only_zeros_are_good() {
        assert!(good().is_good());
        type Change = fn(&mut Report);
        let wrongs: [Change; 6] = [
            |report| report.dead = 1,
            |report| report.unknown = 1,
            |report| report.lost = 1,
            |report| report.doubled = 1,
            |report| report.wrongly_undone = 1,
            |report| report.left_over = 1,
        ];
        for wrong in wrongs {
            let mut report = good();
            wrong(&mut report);
            assert!(!report.is_good() && report.words().contains("must be 0"), "{report:?}");
        }
    }

    #[test]
    fn a_run_in_which_nothing_happened_is_not_good() {
        type Change = fn(&mut Report);
        let nothings: [Change; 3] =
            [|report| report.completed = 0, |report| report.compensated = 0, |report| report.take_overs = 0];
        for nothing in nothings {
            let mut report = good();
            nothing(&mut report);
            assert!(report.words().contains("too few to show anything"), "{report:?}");
        }
    }
}
