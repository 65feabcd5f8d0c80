//! What a participant, or the network before it, may do with one call.

use std::time::Duration;

use crate::dice::Dice;

/// What happens to one call to a participant. Whatever it is, the participant keeps what the definition declares of it: a
/// repeat is recognised, a fence holds, what is sealed stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// It carries the call out and answers.
    Works,
    /// It refuses, for good reason. (A query then has no answer.)
    Refuses,
    /// It says that it is too busy: nothing was carried out.
    IsBusy,
    /// The connection is refused: nothing was sent.
    CannotBeReached,
    /// It answers that the call is not allowed, or nobody said where it is: nothing was carried out.
    IsMisconfigured,
    /// The call is held back before it is sent, by an open breaker or a full limit.
    IsHeldBack,
    /// The call never arrives; the caller's time is over.
    NeverGetsIt,
    /// It carries the call out, and its answer is lost.
    LosesAnswer,
    /// The call arrives this long after it was sent, is then carried out, and its answer is lost.
    GetsItLate(Duration),
    /// It fails with an internal error, having done nothing.
    FailsBefore,
    /// It fails with an internal error, having carried the call out.
    FailsAfter,
    /// It accepts the call, carries it out after this time, and reports that by callback.
    Accepts(Duration),
    /// It carries the call out, and gives an answer that cannot be read.
    AnswersBadly,
    /// It takes this long.
    TakesItsTime(Duration),
}

impl Does {
    /// Whether nobody hears what became of the call.
    pub(crate) fn loses_its_answer(self) -> bool {
        matches!(self, Self::LosesAnswer | Self::GetsItLate(_))
    }

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Refuses => "refuses",
            Self::IsBusy => "is busy",
            Self::CannotBeReached => "cannot be reached",
            Self::IsMisconfigured => "is misconfigured",
            Self::IsHeldBack => "is held back",
            Self::NeverGetsIt => "never gets it",
            Self::LosesAnswer => "loses its answer",
            Self::GetsItLate(_) => "gets it late",
            Self::FailsBefore => "fails before",
            Self::FailsAfter => "fails after",
            Self::Accepts(_) => "accepts",
            Self::AnswersBadly => "answers badly",
            Self::TakesItsTime(_) => "takes its time",
        }
    }
}

/// How likely each is, as a weight. Drawn anew for each run: a fault that is in every run hides what happens without it.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    weights: [(Kind, u32); 14],
    /// How likely a compensation, or a step after the pivot, is refused: a person's work each time.
    pub(crate) refuses_undo: f64,
    /// How likely a query goes wrong.
    pub(crate) query_faults: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Works,
    Refuses,
    IsBusy,
    CannotBeReached,
    IsMisconfigured,
    IsHeldBack,
    NeverGetsIt,
    LosesAnswer,
    GetsItLate,
    FailsBefore,
    FailsAfter,
    Accepts,
    AnswersBadly,
    TakesItsTime,
}

/// The longest a call is on its way: what is declared of keys and seals is longer, or holds against it.
pub(crate) const LATE_MAX_MS: u64 = 60_000;

impl Habits {
    /// Habits without any fault.
    pub(crate) fn calm() -> Self {
        Self { weights: Self::weights(1, |_| 0), refuses_undo: 0.0, query_faults: 0.0 }
    }

    /// Habits by which most calls arrive after their time is over.
    pub(crate) fn late() -> Self {
        let weights = Self::weights(1, |kind| if kind == Kind::GetsItLate { 3 } else { 0 });
        Self { weights, refuses_undo: 0.0, query_faults: 0.0 }
    }

    pub(crate) fn drawn(dice: &mut Dice) -> Self {
        let works = *dice.pick(&[5, 20, 60, 200]);
        let mut drawn = || {
            if dice.chance(0.5) { 0 } else { u32::try_from(dice.within(1..=10)).unwrap_or(1) }
        };
        let weights = Self::weights(works, |_| drawn());
        Self {
            weights,
            refuses_undo: *dice.pick(&[0.0, 0.0, 0.0, 0.02]),
            query_faults: *dice.pick(&[0.0, 0.1, 0.3]),
        }
    }

    fn weights(works: u32, mut of: impl FnMut(Kind) -> u32) -> [(Kind, u32); 14] {
        let kinds = [
            Kind::Works,
            Kind::Refuses,
            Kind::IsBusy,
            Kind::CannotBeReached,
            Kind::IsMisconfigured,
            Kind::IsHeldBack,
            Kind::NeverGetsIt,
            Kind::LosesAnswer,
            Kind::GetsItLate,
            Kind::FailsBefore,
            Kind::FailsAfter,
            Kind::Accepts,
            Kind::AnswersBadly,
            Kind::TakesItsTime,
        ];
        kinds.map(|kind| (kind, if kind == Kind::Works { works } else { of(kind) }))
    }

    /// What happens to the next call, with a time-out of `timeout_ms`. `goes_on`: a refusal would need a person.
    pub(crate) fn draw(&self, dice: &mut Dice, timeout_ms: u64, goes_on: bool) -> Does {
        let kind = dice.weighted(&self.weights);
        let longest = timeout_ms.saturating_mul(3).min(LATE_MAX_MS);
        match kind {
            Kind::Works => Does::Works,
            Kind::Refuses if goes_on && !dice.chance(self.refuses_undo) => Does::Works,
            Kind::Refuses => Does::Refuses,
            Kind::IsBusy => Does::IsBusy,
            Kind::CannotBeReached => Does::CannotBeReached,
            Kind::IsMisconfigured if dice.chance(0.7) => Does::FailsBefore,
            Kind::IsMisconfigured => Does::IsMisconfigured,
            Kind::IsHeldBack => Does::IsHeldBack,
            Kind::NeverGetsIt => Does::NeverGetsIt,
            Kind::LosesAnswer => Does::LosesAnswer,
            Kind::GetsItLate => {
                let longest = if dice.chance(0.3) { LATE_MAX_MS } else { longest.max(timeout_ms + 1) };
                Does::GetsItLate(dice.ms(timeout_ms.min(longest)..=longest))
            }
            Kind::FailsBefore => Does::FailsBefore,
            Kind::FailsAfter => Does::FailsAfter,
            Kind::Accepts => Does::Accepts(dice.ms(1..=longest.max(2))),
            Kind::AnswersBadly => Does::AnswersBadly,
            Kind::TakesItsTime => Does::TakesItsTime(dice.ms(1..=timeout_ms.max(2))),
        }
    }

    /// What happens to the next query.
    pub(crate) fn draw_for_query(&self, dice: &mut Dice, timeout_ms: u64) -> Does {
        if !dice.chance(self.query_faults) {
            return Does::Works;
        }
        match dice.below(7) {
            0 => Does::CannotBeReached,
            1 => Does::NeverGetsIt,
            2 => Does::LosesAnswer,
            3 => Does::FailsBefore,
            4 => Does::AnswersBadly,
            5 => Does::IsHeldBack,
            _ => Does::TakesItsTime(dice.ms(1..=timeout_ms.max(2))),
        }
    }
}
