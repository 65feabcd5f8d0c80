//! An input and facts that have all that a definition will ever substitute.

use amends_core::definition::{Definition, Operation};
use amends_core::template::Path;
use serde_json::{Map, Value};

/// What stands wherever a value is needed. What it is never matters, as long as it could stand there: values are substituted, never
/// compared. Commands may need a number.
pub(super) fn leaf() -> Value {
    Value::from(1)
}

/// An input with every path that the definition uses.
pub(super) fn input(definition: &Definition) -> Value {
    let mut input = Value::Object(Map::new());
    definition.each_path(&mut |path| {
        if let Path::Input(at) = path {
            put(&mut input, at.iter().map(String::as_str));
        }
    });
    input
}

/// What an operation answers when it is done: its declared serials, and every path that others use of it.
pub(super) fn fact(definition: &Definition, step: Option<usize>, operation: &Operation) -> Value {
    let mut fact = Value::Object(Map::new());
    let asked = operation.query.as_ref().and_then(|query| query.serial.first());
    for pointer in operation.serial.first().into_iter().chain(asked) {
        let names: Vec<String> =
            pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
        put(&mut fact, names.iter().map(String::as_str));
    }
    definition.each_path(&mut |path| {
        if let Path::StepFact { step: of, at, .. } = path
            && Some(*of) == step
        {
            put(&mut fact, at.iter().map(String::as_str));
        }
    });
    fact
}

/// Puts a value at the end of a path of names; what stands in the way becomes an object.
fn put<'a>(tree: &mut Value, names: impl Iterator<Item = &'a str>) {
    let mut at = tree;
    let mut names = names.peekable();
    while let Some(name) = names.next() {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(members) = at else { return };
        let last = names.peek().is_none();
        at = members.entry(name).or_insert_with(|| if last { leaf() } else { Value::Object(Map::new()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_within_another_keeps_both() {
        let mut tree = Value::Object(Map::new());
        put(&mut tree, ["a"].into_iter());
        put(&mut tree, ["a", "b"].into_iter());
        put(&mut tree, ["a"].into_iter());
        assert_eq!(tree, serde_json::json!({"a": {"b": 1}}));
    }
}
