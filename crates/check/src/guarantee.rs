//! What participants declare, taken apart into guarantees that can be dropped one at a time.

use amends_core::Definition;
use amends_core::definition::{Idempotency, Operation};

/// One thing that a participant promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guarantee {
    /// What a repeat under the same key does. Without it every message that arrives is carried out anew.
    Idempotency,
    /// After its query said rejected, nothing is carried out. Without it a late message still is.
    Rejected,
    /// What its query expressly says was never seen was not carried out so far. Without it that may be wrong.
    NeverSeen,
    /// What its query expressly does not know so long after a send never happens. Without it it may happen later.
    SealsAfter,
    /// It keeps the fence. Without it an undo of what never ran leaves no tombstone.
    Fenced,
    /// It remembers keys for so long. Without it any key may be forgotten at any time.
    KeyTtl,
}

impl Guarantee {
    /// In the order in which they are reported, which is that of their numbers.
    pub(crate) const ALL: [Self; 6] =
        [Self::Idempotency, Self::Rejected, Self::NeverSeen, Self::SealsAfter, Self::Fenced, Self::KeyTtl];
}

/// A guarantee of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declared {
    /// Index of the participant, in the order of their names.
    pub(crate) participant: usize,
    pub(crate) guarantee: Guarantee,
    /// How it is called in a report.
    pub(crate) name: &'static str,
}

/// Every guarantee that the participants of a definition declare for the operations it has.
pub(crate) fn declared(definition: &Definition) -> Vec<Declared> {
    let mut all = Vec::new();
    for (participant, name) in definition.participants.keys().enumerate() {
        let ops: Vec<&Operation> = operations(definition).filter(|op| op.to == *name).collect();
        for guarantee in Guarantee::ALL {
            if let Some(name) = name_of(guarantee, &ops) {
                all.push(Declared { participant, guarantee, name });
            }
        }
    }
    all
}

/// What a guarantee is called, if these operations of one participant declare it at all.
fn name_of(guarantee: Guarantee, ops: &[&Operation]) -> Option<&'static str> {
    let any = |declares: fn(&Operation) -> bool| ops.iter().any(|op| declares(op));
    match guarantee {
        Guarantee::Idempotency => match ops.iter().map(|op| op.idempotency).max()? {
            Idempotency::None => None,
            Idempotency::Effect => Some("effect"),
            Idempotency::Replay => Some("replay"),
        },
        Guarantee::Rejected => any(|op| op.query.is_some()).then_some("rejected"),
        Guarantee::NeverSeen => any(|op| op.seals_after_ms.is_some()).then_some("never_seen"),
        Guarantee::SealsAfter => any(|op| op.seals_after_ms.is_some()).then_some("seals_after"),
        Guarantee::Fenced => any(|op| op.fenced).then_some("fenced"),
        Guarantee::KeyTtl => {
            any(|op| op.idempotency != Idempotency::None || op.seals_after_ms.is_some()).then_some("key_ttl")
        }
    }
}

pub(crate) fn operations(definition: &Definition) -> impl Iterator<Item = &Operation> {
    definition.steps.iter().flat_map(|step| [&step.action, &step.compensation]).flatten()
}
