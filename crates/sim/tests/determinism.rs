//! One seed, one run: whatever else goes on, the same seed does the same, to the last event.

use amends_sim::{Report, run_seed};

fn facts(report: &Report) -> (u64, u64, usize) {
    (report.digest, report.events, report.violations.len())
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in [3, 17, 4_711, 99_999, u64::MAX] {
        let (first, second) = (run_seed(seed, true), run_seed(seed, true));
        let other = first.lines.iter().zip(&second.lines).find(|(a, b)| a != b);
        assert_eq!(other, None, "seed {seed}");
        assert_eq!(facts(&first), facts(&second), "seed {seed}");
        assert!(first.events > 100, "seed {seed} does something");
    }
}

#[test]
fn what_other_threads_do_changes_nothing() {
    let alone: Vec<_> = (40..44).map(|seed| facts(&run_seed(seed, false))).collect();
    let beside: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (40..44).map(|seed| scope.spawn(move || facts(&run_seed(seed, false)))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a run does not panic")).collect()
    });
    assert_eq!(alone, beside);
}

#[test]
fn other_seeds_do_something_else() {
    assert_ne!(run_seed(1, false).digest, run_seed(2, false).digest);
}
