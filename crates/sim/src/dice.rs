//! Seeded randomness: one seed, from which every stream of a run is forked.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A stream of random numbers. Two of one seed are alike.
///
/// Each part of a run has a stream of its own, so that a change in how one part draws does not shuffle all others.
#[derive(Debug, Clone)]
pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A stream of its own.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// True with this probability. Draws a number in any case, so that a probability of 0 costs the stream as much as another.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }

    /// A number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.u64(range)
    }

    pub(crate) fn ms(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// One of a list that is not empty.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of a list by its weight. The first if nothing has a weight.
    pub(crate) fn weighted<T: Copy>(&mut self, from: &[(T, u32)]) -> T {
        let total: u64 = from.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut drawn = if total == 0 { 0 } else { self.0.u64(..total) };
        for (item, weight) in from {
            let weight = u64::from(*weight);
            if drawn < weight {
                return *item;
            }
            drawn -= weight;
        }
        from[0].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let (mut a, mut b) = (Dice::new(5), Dice::new(5));
        assert!((0..100).all(|_| a.number() == b.number()));
        assert_eq!(a.fork().number(), b.fork().number());
        assert_ne!(Dice::new(5).number(), Dice::new(6).number());
    }

    #[test]
    fn what_has_no_weight_is_not_drawn() {
        let mut dice = Dice::new(1);
        assert!((0..100).all(|_| dice.weighted(&[('a', 0), ('b', 3), ('c', 0), ('d', 1)]) != 'a'));
        assert_eq!(dice.weighted(&[('a', 0)]), 'a');
    }
}
