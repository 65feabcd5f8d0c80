//! What goes wrong on the way to a participant and back, drawn for each request.

use std::time::Duration;

use crate::{Draw, TIMEOUT};

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Answered with 503 and Retry-After, not carried out.
    Busy,
    /// Answered with 500, not carried out.
    ErrorBefore,
    /// Carried out, then answered with 502.
    ErrorAfter,
    /// Not carried out, never answered.
    SilentBefore,
    /// Carried out, never answered.
    SilentAfter,
    /// Carried out, then the connection is cut.
    Cut,
    /// Never answered, and carried out this long after it arrived: its caller has given up by then.
    Late(Duration),
    /// Carried out and answered, and carried out again this much later: somebody in between sent it twice.
    Twice(Duration),
}

impl Fault {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::ErrorBefore => "error, not done",
            Self::ErrorAfter => "error, but done",
            Self::SilentBefore => "time-out, not done",
            Self::SilentAfter => "time-out, but done",
            Self::Cut => "connection cut",
            Self::Late(_) => "late arrival",
            Self::Twice(_) => "duplicate",
        }
    }

    /// Draws the fault of the `n`-th request about `key`, if it meets one. `repeatable`: the same request may arrive twice,
    /// because the participant knows it again.
    #[must_use]
    pub fn draw(seed: u64, rate: f64, key: &str, n: u32, is_query: bool, repeatable: bool) -> Option<Self> {
        let kind = if is_query { "query" } else { "call" };
        let mut draw = Draw::new(seed, &format!("{kind} {key} {n}"));
        if !draw.happens(rate) {
            return None;
        }
        let which = draw.below(100);
        let later = Duration::from_millis(u64::from(draw.below(1_200)));
        if is_query {
            return Some(match which {
                0..40 => Self::ErrorBefore,
                40..70 => Self::SilentBefore,
                _ => Self::Cut,
            });
        }
        Some(match which {
            0..6 => Self::Busy,
            6..16 => Self::ErrorBefore,
            16..28 => Self::ErrorAfter,
            28..40 => Self::SilentBefore,
            40..54 => Self::SilentAfter,
            54..66 => Self::Cut,
            66..84 => Self::Late(TIMEOUT + later),
            _ if repeatable => Self::Twice(later),
            _ => Self::SilentAfter,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_is_met_at_about_the_rate_asked_for() {
        let drawn: Vec<_> = (0..4000).map(|n| Fault::draw(7, 0.25, "k", n, false, true)).collect();
        let names: BTreeSet<_> = drawn.iter().flatten().map(|fault| fault.name()).collect();
        assert_eq!(names.len(), 8, "{names:?}");
        let met = drawn.iter().flatten().count();
        assert!((800..1200).contains(&met), "{met}");
    }

    #[test]
    fn nothing_is_met_at_rate_0_and_the_unprotected_is_not_doubled() {
        assert!((0..1000).all(|n| Fault::draw(7, 0.0, "k", n, false, true).is_none()));
        let doubled = |fault| matches!(fault, Some(Fault::Twice(_)));
        assert!(!(0..1000).any(|n| doubled(Fault::draw(7, 1.0, "k", n, false, false))));
    }
}
