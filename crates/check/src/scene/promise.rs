//! What a participant keeps of one operation, in the exploration at hand.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use amends_core::definition::{Idempotency, Operation};

use crate::guarantee::Guarantee;

/// What a participant keeps of what it declares for one operation: all of it, or all but one guarantee.
#[derive(Debug, Clone)]
pub(crate) struct Promise {
    /// What a repeat under the same key does.
    pub(crate) idempotency: Idempotency,
    /// After its query said rejected, nothing is carried out.
    pub(crate) rejected_binds: bool,
    /// Its query says never seen only of what was not carried out so far.
    pub(crate) never_seen_is_true: bool,
    /// For how long after its send a message can be carried out; `None`: for as long as the story lasts.
    pub(crate) seals_after_ms: Option<i64>,
    /// An undo of what never ran is remembered, and what arrives after it refused.
    pub(crate) keeps_fence: bool,
    /// It remembers keys.
    pub(crate) remembers: bool,
    leant_on: Rc<LeantOn>,
    participant: usize,
}

impl Promise {
    pub(super) fn new(
        operation: &Operation,
        participant: usize,
        dropped: Option<Guarantee>,
        leant_on: &Rc<LeantOn>,
    ) -> Self {
        let keeps = |guarantee| dropped != Some(guarantee);
        let seals_after_ms = operation.seals_after_ms.filter(|_| keeps(Guarantee::SealsAfter));
        Self {
            idempotency: if keeps(Guarantee::Idempotency) {
                operation.idempotency
            } else {
                Idempotency::None
            },
            rejected_binds: keeps(Guarantee::Rejected),
            never_seen_is_true: keeps(Guarantee::NeverSeen),
            seals_after_ms: seals_after_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
            keeps_fence: operation.fenced && keeps(Guarantee::Fenced),
            remembers: keeps(Guarantee::KeyTtl),
            leant_on: leant_on.clone(),
            participant,
        }
    }

    /// Notes that a guarantee has made a difference to what can happen.
    pub(crate) fn lean_on(&self, guarantee: Guarantee) {
        self.leant_on.note(self.participant, guarantee);
    }
}

/// Which guarantees have made a difference in an exploration. One that never did can be dropped without exploring
/// again: nothing else would be found.
#[derive(Debug)]
pub(crate) struct LeantOn(Vec<Cell<bool>>);

impl LeantOn {
    pub(super) fn new(participants: usize) -> Self {
        Self(vec![Cell::new(false); participants * Guarantee::ALL.len()])
    }

    fn note(&self, participant: usize, guarantee: Guarantee) {
        self.0[participant * Guarantee::ALL.len() + guarantee as usize].set(true);
    }

    /// Every guarantee that made a difference, with the participant's index.
    pub(crate) fn all(&self) -> BTreeSet<(usize, Guarantee)> {
        let mut all = BTreeSet::new();
        for (index, noted) in self.0.iter().enumerate() {
            if noted.get() {
                let kinds = Guarantee::ALL.len();
                all.insert((index / kinds, Guarantee::ALL[index % kinds]));
            }
        }
        all
    }
}
