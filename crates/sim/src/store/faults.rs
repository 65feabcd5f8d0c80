//! What goes wrong at a store call.

use std::time::Duration;

use amends_store::Kind;

use crate::dice::Dice;
use crate::options::LEASE_TTL;

/// One call of a store's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Call {
    /// The method.
    pub(crate) name: &'static str,
    /// It changes something.
    pub(crate) writes: bool,
    /// Nodes make it all the time, whether or not there is work.
    pub(crate) is_routine: bool,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails, and nothing is written.
    FailsBefore(Kind),
    /// It is carried out, and the answer is lost.
    LosesAnswer,
    /// It is not carried out, and that answer is lost too.
    LosesBoth,
    /// The answer is lost, and it is carried out after this time. (Only a commit; others lose their answer.)
    LandsLate(Duration),
    /// The node crashes before it is carried out.
    CrashesBefore,
    /// The node crashes while the call is on its way: it is carried out after this time. (Only a commit.)
    CrashesDuring(Duration),
    /// The node crashes once it is carried out.
    CrashesAfter,
    /// The node stands still for this long before it is carried out.
    StallsBefore(Duration),
    /// The node stands still for this long once it is carried out.
    StallsAfter(Duration),
    /// The call alone takes this long to reach the store.
    SlowThere(Duration),
    /// The answer alone takes this long.
    SlowBack(Duration),
}

impl Fault {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FailsBefore(_) => "fails before",
            Self::LosesAnswer => "loses answer",
            Self::LosesBoth => "loses both",
            Self::LandsLate(_) => "lands late",
            Self::CrashesBefore => "crash before",
            Self::CrashesDuring(_) => "crash during",
            Self::CrashesAfter => "crash after",
            Self::StallsBefore(_) => "stall before",
            Self::StallsAfter(_) => "stall after",
            Self::SlowThere(_) => "slow there",
            Self::SlowBack(_) => "slow back",
        }
    }

    /// Each kind once, with times that outlast a lease.
    pub(crate) const EACH: [Self; 10] = [
        Self::FailsBefore(Kind::Unavailable),
        Self::LosesAnswer,
        Self::LosesBoth,
        Self::LandsLate(Duration::from_millis(1_500)),
        Self::CrashesBefore,
        Self::CrashesDuring(Duration::from_millis(1_500)),
        Self::CrashesAfter,
        Self::StallsBefore(Duration::from_secs(9)),
        Self::StallsAfter(Duration::from_secs(9)),
        Self::SlowThere(Duration::from_secs(9)),
    ];
}

/// Which calls meet which fault.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// None.
    None,
    /// As drawn, each call anew.
    Drawn(Rates),
    /// The n-th call of those counted, from 1, alone.
    Nth {
        /// Which.
        n: u64,
        /// Only commits count.
        commits_only: bool,
        /// What happens to it.
        fault: Fault,
    },
}

/// How likely what goes wrong.
#[derive(Debug, Clone)]
pub(crate) struct Rates {
    /// Of a call that works on a saga.
    work: f64,
    /// Of a call that nodes make all the time.
    routine: f64,
    /// How likely each kind is, as a weight.
    weights: [(Which, u32); 11],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    FailsBefore,
    LosesAnswer,
    LosesBoth,
    LandsLate,
    CrashesBefore,
    CrashesDuring,
    CrashesAfter,
    StallsBefore,
    StallsAfter,
    SlowThere,
    SlowBack,
}

impl Rates {
    pub(crate) fn drawn(dice: &mut Dice) -> Self {
        let work = *dice.pick(&[0.0, 0.02, 0.06, 0.15]);
        let routine = work * *dice.pick(&[0.0, 0.02, 0.1]);
        let kinds = [
            Which::FailsBefore,
            Which::LosesAnswer,
            Which::LosesBoth,
            Which::LandsLate,
            Which::CrashesBefore,
            Which::CrashesDuring,
            Which::CrashesAfter,
            Which::StallsBefore,
            Which::StallsAfter,
            Which::SlowThere,
            Which::SlowBack,
        ];
        let weights = kinds.map(|kind| {
            let weight = if dice.chance(0.4) { 0 } else { u32::try_from(dice.within(1..=10)).unwrap_or(1) };
            (kind, weight)
        });
        Self { work, routine, weights }
    }

    pub(crate) fn draw(&self, dice: &mut Dice, call: Call) -> Option<Fault> {
        let rate = if call.is_routine { self.routine } else { self.work };
        if !dice.chance(rate) {
            return None;
        }
        let ttl = u64::try_from(LEASE_TTL.as_millis()).unwrap_or(u64::MAX);
        let short = dice.ms(1..=400);
        let long = dice.ms(ttl / 4..=ttl * 3);
        Some(match dice.weighted(&self.weights) {
            Which::FailsBefore if dice.chance(0.3) => Fault::FailsBefore(Kind::Unwritable),
            Which::FailsBefore => Fault::FailsBefore(Kind::Unavailable),
            Which::LosesAnswer => Fault::LosesAnswer,
            Which::LosesBoth => Fault::LosesBoth,
            Which::LandsLate => Fault::LandsLate(if dice.chance(0.8) { short } else { long }),
            Which::CrashesBefore => Fault::CrashesBefore,
            Which::CrashesDuring => Fault::CrashesDuring(if dice.chance(0.8) { short } else { long }),
            Which::CrashesAfter => Fault::CrashesAfter,
            Which::StallsBefore => Fault::StallsBefore(long),
            Which::StallsAfter => Fault::StallsAfter(long),
            Which::SlowThere => Fault::SlowThere(if dice.chance(0.7) { short } else { long }),
            Which::SlowBack => Fault::SlowBack(if dice.chance(0.7) { short } else { long }),
        })
    }
}
