//! Steps that are the same but for their names: what can happen to one can happen to the other, so that it is enough to
//! explore which of their states there are, not who has which.

use amends_core::definition::{Definition, Operation, Step};

/// Groups of steps that are the same but for their names.
pub(super) fn find(definition: &Definition) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, step) in definition.steps.iter().enumerate() {
        match groups.iter_mut().find(|group| same_step(&definition.steps[group[0]], step)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

fn same_step(a: &Step, b: &Step) -> bool {
    a.after == b.after
        && a.dependants == b.dependants
        && a.kind == b.kind
        && a.effect_none == b.effect_none
        && same_operation(a.action.as_ref(), b.action.as_ref())
        && same_operation(a.compensation.as_ref(), b.compensation.as_ref())
}

/// Whether two operations differ in nothing but what is in their requests.
fn same_operation(a: Option<&Operation>, b: Option<&Operation>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return a.is_none() && b.is_none() };
    let same_query = match (&a.query, &b.query) {
        (Some(a), Some(b)) => {
            a.needs_serial == b.needs_serial
                && a.timeout_ms == b.timeout_ms
                && a.serial.is_empty() == b.serial.is_empty()
        }
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    same_query
        && a.to == b.to
        && a.serial.is_empty() == b.serial.is_empty()
        && a.timeout_ms == b.timeout_ms
        && a.retry == b.retry
        && a.on_unknown == b.on_unknown
        && a.idempotency == b.idempotency
        && a.on_exhausted == b.on_exhausted
        && a.callback_timeout_ms == b.callback_timeout_ms
}
