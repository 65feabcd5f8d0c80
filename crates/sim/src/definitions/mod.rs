//! The definitions whose sagas run: generated ones, and the examples of the tree.

mod generated;

use std::sync::Arc;

use amends_core::Definition;
use amends_core::definition::{Idempotency, Operation, from_toml};
use serde_json::{Map, Value, json};

use crate::dice::Dice;

pub(crate) use generated::generate;

/// The examples, as users find them.
pub(crate) const EXAMPLES: [&str; 3] = [
    include_str!("../../../../examples/order-fulfilment.toml"),
    include_str!("../../../../examples/money-transfer.toml"),
    include_str!("../../../../examples/travel-booking.toml"),
];

/// Reads a text that is known to be good.
///
/// # Panics
/// If it is not.
pub(crate) fn read(text: &str) -> Arc<Definition> {
    from_toml(text).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}")).definition
}

/// One to three definitions.
pub(crate) fn drawn(dice: &mut Dice) -> Vec<(Arc<Definition>, String)> {
    let count = 1 + dice.below(3);
    let mut drawn: Vec<(Arc<Definition>, String)> = Vec::new();
    for n in 0..count {
        let text = if dice.chance(0.15) {
            (*dice.pick(&EXAMPLES)).to_owned()
        } else {
            generate(dice, &format!("generated{n}"), 1)
        };
        let definition = read(&text);
        if drawn.iter().all(|(known, _)| known.name != definition.name) {
            drawn.push((definition, text));
            if dice.chance(0.2) {
                // Sagas of two versions run beside each other, each as its own says.
                let text = generate(dice, &drawn[drawn.len() - 1].0.name.clone(), 2);
                drawn.push((read(&text), text));
            }
        }
    }
    drawn
}

/// A definition that relies on a fence.
pub(crate) fn fenced() -> Vec<(Arc<Definition>, String)> {
    let text = include_str!("fenced.toml").to_owned();
    vec![(read(&text), text)]
}

/// A definition that relies on `seals_after`.
#[cfg(test)]
pub(crate) fn sealing() -> Vec<(Arc<Definition>, String)> {
    let text = include_str!("sealing.toml").to_owned();
    vec![(read(&text), text)]
}

/// An input that has all that a definition needs. Few values, so that sagas want the same resources.
pub(crate) fn input(definition: &Definition, dice: &mut Dice) -> Value {
    let mut input = json!({});
    for path in definition.input_paths() {
        let mut at = &mut input;
        for name in path.split('.').skip(1) {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            let Value::Object(members) = at else { unreachable!("invariant: made an object above") };
            at = members.entry(name.to_owned()).or_insert(Value::Null);
        }
        *at = Value::String(format!("v{}", dice.below(5)));
    }
    input
}

/// Whether an operation ends by itself once faults have stopped (semantics, section 5).
pub(crate) fn ends_by_itself(operation: &Operation) -> bool {
    let can_ask = operation.query.as_ref().is_some_and(|query| !query.needs_serial);
    match operation.idempotency {
        Idempotency::Replay => true,
        Idempotency::Effect => can_ask,
        Idempotency::None => can_ask && operation.seals_after_ms.is_some(),
    }
}
