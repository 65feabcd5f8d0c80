//! What would let an operation end by itself.

use std::sync::Arc;

use amends_core::definition::{Definition, Idempotency, Operation, StepKind, show_duration};
use amends_core::{OpKind, OpRef};

/// Longer than anybody verifies, and any participant remembers: to see whether time is what is missing.
const LONG_MS: u64 = 3_650 * 86_400_000;

/// What would let an operation end by itself. `needs_person`: explores a definition, and says whether the operation then still
/// becomes a person's.
pub(crate) fn cure(
    definition: &Definition,
    op: OpRef,
    needs_person: &dyn Fn(&Arc<Definition>) -> bool,
) -> String {
    let cure = guarantee(definition, op).unwrap_or_else(|| more_time(definition, op, needs_person));
    let step = &definition.steps[op.step];
    if step.effect_none && step.kind == StepKind::Compensatable && definition.deadline_ms.is_none() {
        return format!(
            "{cure}; or give the saga a `deadline`: going back, what became of this step does not matter"
        );
    }
    cure
}

/// What is to be declared, if something is missing.
fn guarantee(definition: &Definition, op: OpRef) -> Option<String> {
    let operation = operation(definition, op);
    let (to, kind) = (&operation.to, op.kind.as_str());
    let asks_by_serial = operation.query.as_ref().is_some_and(|query| query.needs_serial);
    let is_asked = operation.query.is_some() && !asks_by_serial;
    let sealed = operation.seals_after_ms.is_some();
    Some(match (operation.idempotency, is_asked, sealed) {
        (Idempotency::None | Idempotency::Effect, false, _) if asks_by_serial => format!(
            "ask about the {kind} by `${{key}}`: its query needs `${{serial}}`, which is not known when the answer was lost"
        ),
        (Idempotency::None, false, _) => format!(
            "give the {kind} a `query`, and `{to}` a `seals_after`, if it refuses what arrives late; or let `{to}` recognise the \
             key, and declare `idempotency = \"effect\"` with a `query`, or \"replay\""
        ),
        (Idempotency::None, true, false) => format!(
            "declare `seals_after` for `{to}`, if it refuses what arrives late; or let it recognise the key, and declare \
             `idempotency = \"effect\"` or \"replay\""
        ),
        (Idempotency::Effect, false, _) => format!(
            "give the {kind} a `query`; or declare `idempotency = \"replay\"` for `{to}`, if a repeat gets the first answer again"
        ),
        (Idempotency::None, true, true) | (Idempotency::Effect, true, _) | (Idempotency::Replay, _, _) => {
            return None;
        }
    })
}

/// What is declared is enough: what is missing is time. Tried, rather than guessed.
fn more_time(definition: &Definition, op: OpRef, needs_person: &dyn Fn(&Arc<Definition>) -> bool) -> String {
    let now = operation(definition, op);
    let (to, kind) = (&now.to, op.kind.as_str());
    let verify_for = show_duration(now.on_unknown.verify_for_ms);
    let verified_longer = |changed: &mut Definition| {
        operation_mut(changed, op).on_unknown.verify_for_ms = LONG_MS;
    };
    let remembered_longer = |changed: &mut Definition| {
        let all = changed.steps.iter_mut().flat_map(|step| [&mut step.action, &mut step.compensation]);
        all.flatten()
            .filter(|operation| operation.to == *to)
            .for_each(|operation| operation.key_ttl_ms = LONG_MS);
    };
    let helps = |change: &dyn Fn(&mut Definition)| {
        let mut changed = definition.clone();
        change(&mut changed);
        !needs_person(&Arc::new(changed))
    };
    if helps(&verified_longer) {
        return match now.seals_after_ms.filter(|ms| *ms >= now.on_unknown.verify_for_ms) {
            Some(ms) => format!(
                "raise `verify_for` of the {kind}, now {verify_for}, above `seals_after` of `{to}`, which is {}: before that \
                 \"never seen\" proves nothing",
                show_duration(ms)
            ),
            None => format!(
                "raise `verify_for` of the {kind}, now {verify_for}: it is given up before the faults are over"
            ),
        };
    }
    if helps(&remembered_longer) {
        return format!(
            "raise `key_ttl` of `{to}`, now {}, if it remembers keys longer: past it nothing is sent again, and \"never seen\" \
             proves nothing",
            show_duration(now.key_ttl_ms)
        );
    }
    let both = |changed: &mut Definition| {
        verified_longer(changed);
        remembered_longer(changed);
    };
    if helps(&both) {
        return format!(
            "raise `verify_for` of the {kind}, now {verify_for}, and `key_ttl` of `{to}`, now {}",
            show_duration(now.key_ttl_ms)
        );
    }
    if may_end_by_deadline(definition, op) {
        return "give the saga a `deadline`: a fence answers for an action whose outcome is not known, but only once the saga \
                is undone"
            .into();
    }
    format!("lengthen `retry` and `on_unknown` of the {kind}: they are over before the faults are")
}

/// Whether it is a fenced action of a saga without a deadline: it would end once the saga is undone.
pub(crate) fn may_end_by_deadline(definition: &Definition, op: OpRef) -> bool {
    let fenced_undo = definition.steps[op.step].compensation.as_ref().is_some_and(|undo| undo.fenced);
    op.kind == OpKind::Action && fenced_undo && definition.deadline_ms.is_none()
}

fn operation(definition: &Definition, op: OpRef) -> &Operation {
    let step = &definition.steps[op.step];
    match op.kind {
        OpKind::Action => step.action.as_ref(),
        OpKind::Compensation => step.compensation.as_ref(),
    }
    .expect("invariant: only operations of the definition become a person's")
}

fn operation_mut(definition: &mut Definition, op: OpRef) -> &mut Operation {
    let step = &mut definition.steps[op.step];
    match op.kind {
        OpKind::Action => step.action.as_mut(),
        OpKind::Compensation => step.compensation.as_mut(),
    }
    .expect("invariant: only operations of the definition become a person's")
}
