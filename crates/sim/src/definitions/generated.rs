//! Definitions of every shape and guarantee, with policies so short that virtual time is cheap.

use std::fmt::Write as _;

use crate::dice::Dice;

/// What a participant declares, and whether its operations have queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guarantee {
    name: &'static str,
    lines: &'static str,
    /// An action there must have a query.
    needs_query: bool,
    is_fenced: bool,
}

const fn guarantee(name: &'static str, lines: &'static str) -> Guarantee {
    Guarantee { name, lines, needs_query: false, is_fenced: false }
}

const GUARANTEES: [Guarantee; 11] = [
    guarantee("none", "idempotency = \"none\"\n"),
    guarantee("effect", "idempotency = \"effect\"\n"),
    guarantee("replay", "idempotency = \"replay\"\n"),
    guarantee("replay-short", "idempotency = \"replay\"\nkey_ttl = \"4m\"\n"),
    guarantee("effect-short", "idempotency = \"effect\"\nkey_ttl = \"4m\"\n"),
    guarantee("statement", "idempotency = \"effect\"\nsettled_by = \"statement\"\n"),
    Guarantee {
        needs_query: true,
        ..guarantee("none-seals", "idempotency = \"none\"\nseals_after = \"20s\"\n")
    },
    Guarantee {
        needs_query: true,
        ..guarantee("effect-seals", "idempotency = \"effect\"\nseals_after = \"10s\"\n")
    },
    Guarantee {
        needs_query: true,
        ..guarantee("replay-seals", "idempotency = \"replay\"\nseals_after = \"10s\"\n")
    },
    Guarantee { is_fenced: true, ..guarantee("fenced", "idempotency = \"replay\"\nfenced = true\n") },
    Guarantee {
        needs_query: true,
        is_fenced: true,
        ..guarantee("fenced-seals", "idempotency = \"replay\"\nfenced = true\nseals_after = \"10s\"\n")
    },
];

/// Generates a definition.
pub(crate) fn generate(dice: &mut Dice, name: &str, version: u64) -> String {
    let mut text = format!("saga = \"{name}\"\nversion = {version}\nclaims = [\"{name}:${{input.item}}\"]\n");
    if dice.chance(0.3) {
        let _ = writeln!(text, "deadline = \"{}s\"", dice.within(2..=60));
    }
    defaults(dice, &mut text);
    for guarantee in &GUARANTEES {
        let _ = write!(text, "[participants.{}]\n{}", guarantee.name, guarantee.lines);
    }
    let count = 1 + dice.below(5);
    let pivot = if dice.chance(0.4) { Some(dice.below(count)) } else { None };
    // In half of the definitions all is well guarded, so that every saga of them has to end by itself.
    let guarded = dice.chance(0.5);
    let mut serials: Vec<Option<usize>> = Vec::new();
    for index in 0..count {
        step(dice, &mut text, index, pivot, guarded, &mut serials);
    }
    text
}

fn defaults(dice: &mut Dice, text: &mut String) {
    let timeout = *dice.pick(&[100, 300, 800]);
    let attempts = 2 + dice.below(3);
    let queries = 1 + dice.below(2);
    let jitter = *dice.pick(&[0.0, 0.1, 0.5]);
    let _ = writeln!(
        text,
        "[defaults]\ntimeout = \"{timeout}ms\"\nretry = {{ initial = \"50ms\", factor = 2, max_interval = \"400ms\", \
         max_attempts = {attempts}, budget = \"6s\", jitter = {jitter:?} }}\non_unknown = {{ queries = {queries}, interval = \
         \"100ms\", verify = [\"1s\", \"2s\", \"5s\", \"1m\"], verify_for = \"6h\" }}"
    );
}

fn step(
    dice: &mut Dice,
    text: &mut String,
    index: usize,
    pivot: Option<usize>,
    guarded: bool,
    serials: &mut Vec<Option<usize>>,
) {
    let guarantee = loop {
        let drawn = *dice.pick(&GUARANTEES);
        if !guarded || drawn.needs_query || drawn.name.starts_with("replay") || drawn.is_fenced {
            break drawn;
        }
    };
    let _ = writeln!(text, "[[step]]\nname = \"s{index}\"");
    // A line after the pivot, everything before it, free branches elsewhere.
    let after: Vec<usize> = match pivot {
        Some(pivot) if index == pivot => (0..index).collect(),
        Some(pivot) if index > pivot => vec![index - 1],
        Some(_) | None => (0..index).filter(|_| dice.chance(0.5)).collect(),
    };
    let names: Vec<String> = after.iter().map(|before| format!("\"s{before}\"")).collect();
    let _ = writeln!(text, "after = [{}]", names.join(", "));
    let is_pivot = pivot == Some(index);
    let undoable = pivot.is_none_or(|pivot| index < pivot);
    if is_pivot {
        text.push_str("pivot = true\n");
    }
    if undoable && dice.chance(0.05) {
        serials.push(None);
        return;
    }
    let effect_none = undoable && !guarantee.is_fenced && dice.chance(0.1);
    if effect_none {
        text.push_str("effect = \"none\"\n");
    }
    let has_serial = dice.chance(0.6);
    operation(dice, text, guarantee, "action", has_serial);
    if let Some(before) = after.iter().rev().find(|before| serials[**before].is_some()) {
        let _ =
            writeln!(text, "body = {{ item = \"${{input.item}}\", of = \"${{steps.s{before}.serial}}\" }}");
    } else {
        text.push_str("body = { item = \"${input.item}\" }\n");
    }
    if undoable && dice.chance(0.1) {
        text.push_str("on_exhausted = \"dead\"\n");
    }
    if dice.chance(0.3) {
        text.push_str("callback_timeout = \"4s\"\n");
    }
    serials.push(has_serial.then_some(index));
    if undoable && !effect_none {
        operation(dice, text, guarantee, "compensation", false);
        if has_serial && !guarantee.is_fenced {
            let _ = writeln!(text, "body = {{ of = \"${{steps.s{index}.serial}}\" }}");
        }
    }
}

/// One operation, up to its body.
fn operation(dice: &mut Dice, text: &mut String, guarantee: Guarantee, kind: &str, has_serial: bool) {
    let _ = writeln!(text, "[step.{kind}]\nto = \"{}\"\npost = \"/{kind}\"", guarantee.name);
    if has_serial {
        text.push_str("serial = \"/id\"\n");
    }
    if guarantee.needs_query || (kind == "action" && dice.chance(0.5)) || dice.chance(0.3) {
        let outcome = if dice.chance(0.3) {
            ", outcome = { at = \"/status\", done = [\"OK\"], rejected = [\"NO\"], in_progress = [\"WAIT\"], never_seen = [\"?\"] }"
        } else {
            ""
        };
        let _ = writeln!(text, "query = {{ get = \"/{kind}/${{key}}\"{outcome} }}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::read;

    #[test]
    fn every_generated_definition_is_accepted() {
        let mut dice = Dice::new(1);
        for _ in 0..500 {
            read(&generate(&mut dice, "generated", 1));
        }
    }

    #[test]
    fn every_guarantee_and_shape_is_generated() {
        let mut dice = Dice::new(2);
        let texts: Vec<String> = (0..300).map(|_| generate(&mut dice, "generated", 1)).collect();
        for guarantee in GUARANTEES {
            assert!(texts.iter().any(|text| text.contains(&format!("to = \"{}\"", guarantee.name))));
        }
        let definitions: Vec<_> = texts.iter().map(|text| read(text)).collect();
        assert!(
            definitions.iter().any(|d| d.pivot().is_some_and(|pivot| pivot + 1 < d.steps.len())),
            "a tail"
        );
        assert!(
            definitions.iter().any(|d| d.steps.iter().filter(|s| s.after.is_empty()).count() > 1),
            "branches"
        );
        assert!(definitions.iter().any(|d| d.steps.iter().any(|s| s.after.len() > 1)), "a join");
        assert!(definitions.iter().any(|d| d.deadline_ms.is_some()));
    }
}
