//! What really happened: every effect that any participant carried out, in order.

use amends_core::{OpKind, SagaId, Time};

/// One effect at a participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// When it happened.
    pub(crate) at: Time,
    /// On whose behalf.
    pub(crate) saga: SagaId,
    /// Index of the step in its definition.
    pub(crate) step: usize,
    /// Whether the action was carried out, or undone.
    pub(crate) kind: OpKind,
    /// The key under which it was asked for.
    pub(crate) key: String,
}

/// Every effect there ever was. Only appended to.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    effects: Vec<Effect>,
}

impl Ledger {
    pub(crate) fn add(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Those of one saga, oldest first.
    pub(crate) fn of<'a>(&'a self, saga: &'a SagaId) -> impl Iterator<Item = &'a Effect> {
        self.effects.iter().filter(move |effect| effect.saga == *saga)
    }

    /// How often a step's action was carried out, or undone.
    pub(crate) fn count(&self, saga: &SagaId, step: usize, kind: OpKind) -> usize {
        self.of(saga).filter(|effect| effect.step == step && effect.kind == kind).count()
    }

    /// How often something was carried out under a key.
    pub(crate) fn under(&self, key: &str) -> usize {
        self.effects.iter().filter(|effect| effect.key == key).count()
    }

    pub(crate) fn all(&self) -> &[Effect] {
        &self.effects
    }
}
