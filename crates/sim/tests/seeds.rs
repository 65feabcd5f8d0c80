//! The runs of continuous integration: seeds that once failed, and a fixed set of others.

use amends_sim::{Totals, run_seed};

/// Runs seeds, and fails with what it takes to repeat those that violate an invariant.
fn all_is_well(seeds: impl Iterator<Item = u64>) -> Totals {
    let mut totals = Totals::default();
    let mut failures = Vec::new();
    for seed in seeds {
        let report = run_seed(seed, false);
        totals.add(&report);
        failures.extend(report.failure().map(|failure| {
            let end = report.lines.len().saturating_sub(40);
            format!("{failure}\nits last lines:\n{}", report.lines[end..].join("\n"))
        }));
    }
    assert!(failures.is_empty(), "{}\n{totals}", failures.join("\n\n"));
    totals
}

#[test]
fn seeds_that_once_failed_fail_no_more() {
    let text = include_str!("../seeds/regressions.txt");
    let lines = text.lines().filter_map(|line| line.split('#').next()).map(str::trim);
    let seeds: Vec<u64> =
        lines.filter(|line| !line.is_empty()).map(|line| line.parse().expect("a seed a line")).collect();
    assert!(!seeds.is_empty());
    all_is_well(seeds.into_iter());
}

/// A set a test: they run beside each other.
macro_rules! sets {
    ($($name:ident: $seeds:expr;)*) => {
        $(#[test]
        fn $name() {
            let totals = all_is_well($seeds);
            // A run that does nothing violates nothing: every set has to get somewhere, through faults.
            assert!(totals.sagas > 100 && totals.crashes > 50 && totals.states() > 500, "{totals}");
            let ended = totals.by_status.get("completed").copied().unwrap_or(0);
            let undone = totals.by_status.get("compensated").copied().unwrap_or(0);
            assert!(ended > 50 && undone > 10, "{totals}");
        })*
    };
}

sets! {
    first_set: 0..60;
    second_set: 100_000..100_060;
    third_set: 200_000..200_060;
    fourth_set: 300_000..300_060;
}
