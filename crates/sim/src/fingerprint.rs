//! Which state a saga is in, without what makes every saga different: how much of what is possible a run has met.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem::discriminant;

use amends_core::{OpState, Saga};

/// Two sagas of definitions of the same shape that are in the same state, times and counts aside, have the same.
pub(crate) fn fingerprint(saga: &Saga) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (step, state) in saga.definition.steps.iter().zip(&saga.steps) {
        (&step.after, step.effect_none).hash(&mut hasher);
        discriminant(&step.kind).hash(&mut hasher);
        for (operation, op) in [(&step.action, &state.action), (&step.compensation, &state.compensation)] {
            if let Some(operation) = operation {
                let guarantee =
                    (discriminant(&operation.idempotency), operation.query.is_some(), operation.fenced);
                (guarantee, operation.seals_after_ms.is_some()).hash(&mut hasher);
                operation_state(op, &mut hasher);
            }
        }
        (state.started, state.done, state.skipped, state.undone).hash(&mut hasher);
    }
    discriminant(&saga.direction).hash(&mut hasher);
    saga.ended.map(|how| discriminant(&how)).hash(&mut hasher);
    let flags = [
        saga.accepting.is_some(),
        saga.undo_pending.is_some(),
        saga.overdue,
        saga.stuck.is_some(),
        saga.contradictions.is_empty(),
    ];
    (flags, saga.take_overs_in_a_row).hash(&mut hasher);
    hasher.finish()
}

fn operation_state(op: &OpState, hasher: &mut DefaultHasher) {
    discriminant(&op.knowledge()).hash(hasher);
    discriminant(&op.phase).hash(hasher);
    let counts = (op.generation, op.open.min(2), op.sends.min(3), op.resends.min(2), op.verified.min(2));
    (op.enabled, counts, op.verifying, op.forced, op.serial.is_some(), op.parked.is_some()).hash(hasher);
}
