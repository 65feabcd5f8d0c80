//! What a story comes to.

use amends_core::{OpKind, OpRef};

use super::Ending;
use super::words::{Words, capital};
use crate::safety::Violation;
use crate::state::State;

impl Words<'_> {
    /// The last line of a story. `after`: the state it ends in.
    pub(super) fn of_ending(&self, ending: Ending, after: Option<&State>) -> String {
        let violation = match ending {
            Ending::Person(op) => {
                return format!(
                    "Whether {} was carried out, nobody can tell: a person has to find out from {} and resolve it.",
                    self.op(op),
                    self.to(op)
                );
            }
            Ending::Violation(violation) => violation,
        };
        let effects = |op: OpRef| after.map_or(2, |state| state.world(op).effects);
        match violation {
            Violation::Twice(op) if effects(op) < 2 => format!(
                "{} is known to be done, and another message for it still arrives: it is carried out twice.",
                capital(&self.op(op))
            ),
            Violation::LeftOver(step) if effects(OpRef::action(step)) == 0 => format!(
                "{} counts as undone, but a message for it still arrives: it is carried out, and stays so.",
                capital(&self.step(step))
            ),
            Violation::LeftOver(step) => {
                format!("{} counts as undone, but was carried out, and stays so.", capital(&self.step(step)))
            }
            _ => format!("{}.", capital(&self.harm(ending))),
        }
    }

    /// What it comes to, in a few words.
    pub(super) fn harm(&self, ending: Ending) -> String {
        let violation = match ending {
            Ending::Person(op) => return format!("a person is needed for {}", self.op(op)),
            Ending::Violation(violation) => violation,
        };
        match violation {
            Violation::Twice(op) => format!("{} is carried out twice", self.op(op)),
            Violation::Lost(op) => format!("{} counts as done, but was never carried out", self.op(op)),
            Violation::LeftOver(step) => {
                format!("{} stays carried out although the saga is undone", self.step(step))
            }
            Violation::UndoneUnknown(step) => {
                format!("{} is undone while nobody knows whether it was carried out", self.step(step))
            }
            Violation::UndoneNothing(step) => {
                format!("the undo of {} is carried out although there is nothing to undo", self.step(step))
            }
            Violation::OutOfOrder { step, dependant } => format!(
                "{} is undone before {}, which comes after it and has not been undone",
                self.step(step),
                self.step(dependant)
            ),
            Violation::PastPivot(step) => format!(
                "the saga is undone although its point of no return, {}, may be passed",
                self.step(step)
            ),
            Violation::Attempts(op) => {
                format!("{} is attempted more often than its retry policy allows", self.op(op))
            }
            Violation::Budget(op) => format!("{} uses more time than its retry budget holds", self.op(op)),
            Violation::NotAbsorbed => "the saga still moves after its end".into(),
            Violation::Unwritten(op) => format!("{} is sent although no entry allows it", self.op(op)),
            Violation::Asleep(Some(op)) => {
                format!("nothing will wake the saga when the time of {} has come", self.op(op))
            }
            Violation::Asleep(None) => "nothing will move the saga, and nobody is told".into(),
        }
    }

    /// Where it happens: `charge.action`, `charge`, or nothing for the saga as a whole.
    pub(super) fn path(&self, ending: Ending) -> String {
        let of_op = |op: OpRef| format!("{}.{}", self.plain(op.step), op.kind.as_str());
        let violation = match ending {
            Ending::Person(op) => return of_op(op),
            Ending::Violation(violation) => violation,
        };
        match violation {
            Violation::Twice(op)
            | Violation::Lost(op)
            | Violation::Attempts(op)
            | Violation::Budget(op)
            | Violation::Unwritten(op)
            | Violation::Asleep(Some(op)) => of_op(op),
            Violation::UndoneNothing(step) => of_op(OpRef { step, kind: OpKind::Compensation }),
            Violation::LeftOver(step)
            | Violation::UndoneUnknown(step)
            | Violation::OutOfOrder { step, .. }
            | Violation::PastPivot(step) => self.plain(step).to_owned(),
            Violation::NotAbsorbed | Violation::Asleep(None) => String::new(),
        }
    }
}
