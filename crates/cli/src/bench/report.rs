//! What the benchmark says at its end.

use serde::Serialize;

use super::Pair;
use super::measure::median;
use crate::table::Table;

/// The result, in the words and the order of the documentation. Of what was measured in rounds it has the median.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    workload: &'static str,
    store: &'static str,
    concurrency: u32,
    sagas_per_second: Option<f64>,
    baseline_per_second: Option<f64>,
    ratio: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    commit_p99_ms: Option<f64>,
    cpu_ms_per_saga: Option<f64>,
    rounds: Vec<RoundSummary>,
}

#[derive(Debug, Serialize)]
struct RoundSummary {
    sagas_per_second: f64,
    baseline_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    baseline_p50_ms: f64,
    baseline_p99_ms: f64,
    commit_p99_ms: Option<f64>,
    cpu_ms_per_saga: Option<f64>,
}

impl From<&Pair> for RoundSummary {
    fn from(pair: &Pair) -> Self {
        Self {
            sagas_per_second: tidy(pair.amends.per_second()),
            baseline_per_second: tidy(pair.baseline.per_second()),
            p50_ms: tidy(pair.amends.quantile(0.50)),
            p99_ms: tidy(pair.amends.quantile(0.99)),
            baseline_p50_ms: tidy(pair.baseline.quantile(0.50)),
            baseline_p99_ms: tidy(pair.baseline.quantile(0.99)),
            commit_p99_ms: pair.commit_p99_ms.map(tidy),
            cpu_ms_per_saga: pair.cpu_ms.map(|ms| tidy(ms / pair.amends.latencies_ms.len().max(1) as f64)),
        }
    }
}

impl Summary {
    /// Takes the medians.
    pub(super) fn new(workload: &'static str, store: &'static str, concurrency: u32, pairs: &[Pair]) -> Self {
        let rounds: Vec<RoundSummary> = pairs.iter().map(RoundSummary::from).collect();
        let middle = |of: fn(&RoundSummary) -> Option<f64>| median(rounds.iter().filter_map(of)).map(tidy);
        let sagas_per_second = middle(|round| Some(round.sagas_per_second));
        let baseline_per_second = middle(|round| Some(round.baseline_per_second));
        Self {
            workload,
            store,
            concurrency,
            sagas_per_second,
            baseline_per_second,
            ratio: sagas_per_second.zip(baseline_per_second).map(|(amends, plain)| tidy(amends / plain)),
            p50_ms: middle(|round| Some(round.p50_ms)),
            p99_ms: middle(|round| Some(round.p99_ms)),
            commit_p99_ms: middle(|round| round.commit_p99_ms),
            cpu_ms_per_saga: middle(|round| round.cpu_ms_per_saga),
            rounds,
        }
    }
}

/// Three digits after the point are more than any measurement here is good for.
fn tidy(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// The result for people.
pub(super) fn words(summary: &Summary) -> String {
    let mut table = Table::new(&["ROUND", "SAGAS/S", "PLAIN/S", "RATIO", "P50 MS", "P99 MS"]);
    for (n, round) in summary.rounds.iter().enumerate() {
        table.row([
            (n + 1).to_string(),
            format!("{:.0}", round.sagas_per_second),
            format!("{:.0}", round.baseline_per_second),
            format!("{:.2}", round.sagas_per_second / round.baseline_per_second),
            format!("{:.2}", round.p50_ms),
            format!("{:.2}", round.p99_ms),
        ]);
    }
    let number = |number: Option<f64>, digits: usize| {
        number.map_or("?".to_owned(), |number| format!("{number:.digits$}"))
    };
    format!(
        "{table}\nmedians on {} at concurrency {}:\n\
         {} durable sagas a second, {} of a plain service that keeps nothing ({} orders a second)\n\
         latency {} ms (p99 {} ms), commit p99 {} ms, {} ms of CPU a saga\n",
        summary.store,
        summary.concurrency,
        number(summary.sagas_per_second, 0),
        number(summary.ratio, 2),
        number(summary.baseline_per_second, 0),
        number(summary.p50_ms, 2),
        number(summary.p99_ms, 2),
        number(summary.commit_p99_ms, 2),
        number(summary.cpu_ms_per_saga, 3),
    )
}
