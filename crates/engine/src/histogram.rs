//! A histogram with fixed buckets that many tasks fill at once without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [u64],
    /// One more than bounds: what is above them all.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

/// A histogram as it was at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramView {
    /// (upper bound, how many were at most that and above the bound before), ascending.
    pub buckets: Vec<(u64, u64)>,
    /// How many were above the last bound.
    pub above: u64,
    /// The sum of all.
    pub sum: u64,
}

impl HistogramView {
    /// How many were observed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, n)| n).sum::<u64>() + self.above
    }
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub(crate) fn view(&self) -> HistogramView {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HistogramView {
            buckets: self.bounds.iter().copied().zip(self.counts.iter().map(read)).collect(),
            above: self.counts.last().map_or(0, read),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[10, 20]);
        [5, 10, 11, 20, 21].into_iter().for_each(|value| histogram.observe(value));
        let view = histogram.view();
        assert_eq!(
            (view.buckets.clone(), view.above, view.sum, view.count()),
            (vec![(10, 2), (20, 2)], 1, 67, 5)
        );
    }
}
