//! `amends bench`: that it measures, not what.

use crate::program::run;

#[test]
fn both_sides_are_measured_in_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(
        folder.path(),
        &["bench", "--workload", "order3", "--concurrency", "4", "--seconds", "1", "--json"],
    )
    .exits(0);
    assert_eq!(ran.out.lines().count(), 1, "{ran:?}");
    let result = ran.json();
    assert_eq!((result["workload"].as_str(), result["store"].as_str()), (Some("order3"), Some("sqlite")));
    assert_eq!(result["concurrency"].as_u64(), Some(4));
    let measured = [
        "sagas_per_second",
        "baseline_per_second",
        "ratio",
        "p50_ms",
        "p99_ms",
        "commit_p99_ms",
        "cpu_ms_per_saga",
    ];
    for name in measured {
        assert!(result[name].as_f64().is_some_and(|value| value > 0.0), "{name}: {result}");
    }
    let rounds = result["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 3);
    let mut rates: Vec<f64> = rounds.iter().filter_map(|round| round["sagas_per_second"].as_f64()).collect();
    rates.sort_by(f64::total_cmp);
    assert_eq!(result["sagas_per_second"].as_f64(), Some(rates[1]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");
}
