//! Randomness as a value: whoever calls the core draws it.

/// A number in `0.0 ..= 1.0`, drawn by the caller, that spreads back-offs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// No spreading at all: every back-off is exactly what the policy says.
    pub const NONE: Self = Self(0.0);

    /// Takes a drawn number; anything outside `0.0 ..= 1.0` is clamped, not-a-number counts as 0.
    #[must_use]
    pub fn new(drawn: f64) -> Self {
        Self(if drawn.is_nan() { 0.0 } else { drawn.clamp(0.0, 1.0) })
    }

    /// Shortens `ms` by up to the fraction `spread` of it. Never lengthens, so that a budget checked against the
    /// policy's plain back-offs also holds for jittered ones.
    #[must_use]
    pub fn shorten_ms(self, ms: u64, spread: f64) -> u64 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "back-offs are far below 2^53 ms and the product is within 0..=ms"
        )]
        let cut = (ms as f64 * spread.clamp(0.0, 1.0) * self.0) as u64;
        ms.saturating_sub(cut)
    }
}
