//! The engine's only randomness: seeded, so that a simulation repeats itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use amends_core::Jitter;

/// SplitMix64: each number is a mix of a counter, so that threads can share it without a lock. It spreads retries and tells
/// writes apart; nothing secret depends on it.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number. Of one seed no two are alike, within 2^64 of them.
    pub(crate) fn next(&self) -> u64 {
        let mut x = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(self.fraction())
    }

    /// A pause between half of `pause` and all of it, so that those who failed together do not come back together.
    pub(crate) fn spread(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + 0.5 * self.fraction())
    }

    fn fraction(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
        let drawn = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (a, b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        assert_ne!(Random::new(8).next(), Random::new(7).next());
    }

    #[test]
    fn a_spread_pause_is_at_least_half_as_long() {
        let random = Random::new(1);
        let pause = Duration::from_secs(8);
        assert!((0..1_000).map(|_| random.spread(pause)).all(|p| p >= pause / 2 && p <= pause));
    }
}
