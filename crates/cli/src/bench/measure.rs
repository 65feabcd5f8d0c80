//! What a round costs the server: CPU time of its process, and how long commits took.

use std::collections::BTreeMap;

/// The histogram of commit times on `/metrics`.
const COMMITS: &str = "amends_commit_seconds_bucket";

/// CPU time that a process has used, in milliseconds; `None` where the system does not tell it this way.
pub(super) fn cpu_ms(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    cpu_ms_of(&stat, rustix::param::clock_ticks_per_second())
}

/// The times are the 14th and 15th field; the second, the program's name, is in parentheses and may contain anything.
fn cpu_ms_of(stat: &str, ticks_per_second: u64) -> Option<f64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 * 1_000.0 / ticks_per_second as f64)
}

/// Counts of commits by upper bound in microseconds (the last is infinite), cumulative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Commits(BTreeMap<u64, u64>);

impl Commits {
    /// Reads them from the text of `/metrics`.
    pub(super) fn read(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines().filter(|line| line.starts_with(COMMITS)) {
            let bound =
                line.split_once("le=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(bound, _)| bound);
            let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
            if let (Some(bound), Some(count)) = (bound.and_then(micros), count) {
                *counts.entry(bound).or_default() += count;
            }
        }
        Self(counts)
    }

    /// The time in milliseconds that this share of the commits since `before` did not exceed, interpolated within its bucket.
    pub(super) fn quantile_since(&self, before: &Self, share: f64) -> Option<f64> {
        let since: Vec<(u64, u64)> = self
            .0
            .iter()
            .map(|(bound, count)| (*bound, count - before.0.get(bound).unwrap_or(&0).min(count)))
            .collect();
        let all = since.last()?.1;
        if all == 0 {
            return None;
        }
        let rank = all as f64 * share;
        let (mut lower, mut below) = (0, 0);
        for (bound, count) in since {
            if count as f64 >= rank {
                if bound == u64::MAX || count == below {
                    return Some(lower as f64 / 1_000.0);
                }
                let within = (rank - below as f64) / (count - below) as f64;
                return Some((lower as f64 + (bound - lower) as f64 * within) / 1_000.0);
            }
            (lower, below) = (bound, count);
        }
        None
    }
}

/// Seconds as whole microseconds.
fn micros(seconds: &str) -> Option<u64> {
    if seconds == "+Inf" {
        return Some(u64::MAX);
    }
    let seconds: f64 = seconds.parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounds are small and positive"
    )]
    let micros = (seconds * 1_000_000.0).round() as u64;
    Some(micros)
}

/// The middle one; of an even number the mean of the two in the middle.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some((values[middle - 1] + upper) / 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ms_of(stat, 100), Some(2_000.0));
        assert_eq!(cpu_ms_of("nonsense", 100), None);
    }

    #[test]
    fn this_process_uses_time() {
        assert!(cpu_ms(std::process::id()).is_some());
    }

    #[test]
    fn quantiles_are_of_what_came_since() {
        let text = |counts: [u64; 3]| {
            let [a, b, all] = counts;
            format!(
                "# HELP x\namends_commit_seconds_sum 1\namends_commit_seconds_bucket{{le=\"0.001\"}} {a}\n\
                 amends_commit_seconds_bucket{{le=\"0.01\"}} {b}\namends_commit_seconds_bucket{{le=\"+Inf\"}} {all}\n"
            )
        };
        let before = Commits::read(&text([1_000, 1_000, 1_000]));
        let after = Commits::read(&text([1_050, 1_100, 1_100]));
        assert_eq!(after.quantile_since(&before, 0.5), Some(1.0));
        assert_eq!(after.quantile_since(&before, 0.75), Some(5.5));
        assert_eq!(after.quantile_since(&after, 0.5), None);
        let beyond = Commits::read(&text([1_000, 1_000, 1_100]));
        assert_eq!(beyond.quantile_since(&before, 0.99), Some(10.0));
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }
}
