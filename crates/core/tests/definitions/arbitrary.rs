//! Nothing that comes from outside makes the reader panic, and what it reads it reads again.

use amends_core::answer::{read_answer, read_query};
use amends_core::definition::{Diagnostic, from_json, from_toml, from_tree, parse_duration, show_duration};
use amends_core::{Answer, Outcome};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::{BASE, one_action};

/// Words that definitions are made of, so that trees of them get far into the reader.
const WORDS: &str = "saga|version|claims|deadline|states|defaults|participants|step|name|after|reaches|pivot|effect|action|\
                     compensation|timeout|retry|on_unknown|to|get|post|headers|body|form|serial|outcome|query|idempotency|\
                     on_exhausted|at|done|codes|404|stock|reserve|replay|none|/a|/a/\\$\\{id\\}|\\$\\{input\\.x\\}|\
                     \\$\\{steps\\.reserve\\.serial\\}|3s|\\$|";

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        WORDS.prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((WORDS, inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Every place in a tree, as the path of names and indexes that leads there.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| places(item, &format!("{at}/{i}"), all));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| places(member, &format!("{at}/{name}"), all));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn are_kind(problems: &[Diagnostic]) -> bool {
    !problems.is_empty()
        && problems.iter().all(|problem| !problem.reason.is_empty() && !problem.remedy.is_empty())
}

#[test]
fn a_text_that_ends_too_early_is_blamed_on_its_last_line() {
    let problems = from_toml("saga = \"\"\"a\nb\n").unwrap_err();
    assert_eq!(problems[0].line, 2, "{problems:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text(text in "\\PC{0,200}|[\\[\\]{}=\"'.,#a1\\n ]{0,80}") {
        for read in [from_toml, from_json] {
            if let Err(problems) = read(&text) {
                prop_assert!(are_kind(&problems));
            }
        }
    }

    #[test]
    fn a_good_text_with_a_hole_or_a_patch(start in 0..BASE.len(), len in 0..20_usize, patch in "\\PC{0,6}|[\\[\\]{}=\"$]{0,3}") {
        let end = (start + len).min(BASE.len());
        let text = format!("{}{patch}{}", &BASE[..start], &BASE[end..]);
        if let Err(problems) = from_toml(&text) {
            prop_assert!(are_kind(&problems));
            let lines = text.lines().count();
            prop_assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)), "{:?}", problems);
        }
    }

    #[test]
    fn any_tree(tree in tree()) {
        let of_tree = from_tree(&tree);
        let of_json = from_json(&tree.to_string());
        prop_assert_eq!(of_tree.is_ok(), of_json.is_ok());
        if let Err(problems) = of_tree {
            prop_assert!(are_kind(&problems));
        }
    }

    #[test]
    fn a_good_tree_with_one_place_replaced(at in any::<prop::sample::Index>(), by in tree()) {
        let mut tree = (*crate::definition(BASE).tree).clone();
        let mut all = Vec::new();
        places(&tree, "", &mut all);
        *tree.pointer_mut(&all[at.index(all.len())]).expect("a place") = by;
        match from_tree(&tree) {
            Ok(checked) => {
                let json = from_json(&tree.to_string()).expect("as JSON too").definition;
                prop_assert_eq!(&checked.definition, &json);
            }
            Err(problems) => prop_assert!(are_kind(&problems)),
        }
    }

    #[test]
    fn any_answer(status in 0..1_000_u16, body in vec(any::<u8>(), 0..60), said in tree(), raw in any::<bool>()) {
        let definition = one_action(
            "serial = \"/name\"\noutcome = { at = \"/at\", done = [\"done\"] }\nquery = { get = \"/\" }",
        );
        let op = definition.steps[0].action.as_ref().expect("an action");
        let query = op.query.as_ref().expect("a query");
        let body = if raw { body } else { said.to_string().into_bytes() };
        let answer = Answer::Response { status, retry_after_ms: None, body };
        if let Outcome::Done { serial, .. } = read_answer(op, &answer) {
            prop_assert!(serial.is_some_and(|serial| !serial.is_null()), "done without its serial");
        }
        let _ = read_query(op, query, &answer);
    }

    #[test]
    fn any_duration(text in "\\PC{0,12}|[0-9]{0,22}(ms|s|m|h|d)?") {
        if let Ok(ms) = parse_duration(&text) {
            prop_assert_eq!(parse_duration(&show_duration(ms)), Ok(ms));
        }
    }
}
