//! Chance that can be repeated: the same seed draws the same workload and the same faults.

use sha2::{Digest as _, Sha256};

/// Numbers drawn for one thing (`what`), in a fixed order.
#[derive(Debug)]
pub struct Draw {
    bytes: [u8; 32],
    at: usize,
}

impl Draw {
    /// The numbers of `what` under this seed.
    #[must_use]
    pub fn new(seed: u64, what: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(seed.to_be_bytes());
        hasher.update(what.as_bytes());
        Self { bytes: hasher.finalize().into(), at: 0 }
    }

    /// The next number, at least 0 and below 1. There are eight of them.
    ///
    /// # Panics
    /// If a ninth is asked for.
    pub fn number(&mut self) -> f64 {
        let four = &self.bytes[self.at..self.at + 4];
        self.at += 4;
        f64::from(u32::from_be_bytes([four[0], four[1], four[2], four[3]])) / (f64::from(u32::MAX) + 1.0)
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.number() < probability
    }

    /// A whole number at least 0 and below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below `end`, at least 0")]
        let number = (self.number() * f64::from(end)) as u32;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_draws_the_same_and_another_draws_others() {
        let numbers = |seed, what| {
            let mut draw = Draw::new(seed, what);
            (0..8).map(|_| draw.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, "a"), numbers(1, "a"));
        assert_ne!(numbers(1, "a"), numbers(2, "a"));
        assert_ne!(numbers(1, "a"), numbers(1, "b"));
        assert!(numbers(1, "a").iter().all(|n| *n < 1000));
    }
}
