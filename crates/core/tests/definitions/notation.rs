//! TOML, JSON and stored trees of the same content are the same definition.

use amends_core::definition::{from_json, from_toml, from_tree};
use amends_core::json::{can_be_kept, canonical, digest, is_pointer, same};
use serde_json::{Value, json};

use crate::{BASE, definition, lines};

#[test]
fn equal_trees_have_equal_digests_whatever_they_were_written_in() {
    let toml = definition(BASE);
    let json = serde_json::to_string_pretty(&*toml.tree).expect("JSON");
    let from_json = from_json(&json).expect("no problems").definition;
    let from_tree = from_tree(&toml.tree).expect("no problems").definition;
    assert_eq!((&*toml, &*toml), (&*from_json, &*from_tree));
    assert_eq!(toml.digest.len(), 64);
    assert_eq!(toml.digest, digest(&toml.tree));
    let turned = BASE.replace("saga = \"order\"\nversion = 1\n", "version = 1\nsaga = 'order'  # the same\n");
    assert_eq!(definition(&turned).digest, toml.digest, "order, quotes and comments do not count");
    let other = BASE.replace("/mails", "/mail");
    assert_ne!(definition(&other).digest, toml.digest);
}

#[test]
fn numbers_keep_their_text() {
    let body = |toml: &str| {
        let text = format!(
            "saga = \"s\"\nversion = 1\n[participants.p]\nidempotency = \"replay\"\n[[step]]\nname = \"a\"\neffect = \"none\"\n\
             [step.action]\nto = \"p\"\npost = \"/\"\nbody = {toml}"
        );
        let tree = definition(&text).tree.clone();
        tree.pointer("/step/0/action/body").map(canonical).expect("a body")
    };
    for (toml, json) in [
        ("1", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1_000", "1000"),
        ("0xff", "255"),
        ("0o17", "15"),
        ("0b101", "5"),
        ("1.50", "1.50"),
        ("1_0.5", "10.5"),
        ("+0.10", "0.10"),
        ("1e3", "1e+3"),
        ("1E3", "1e+3"),
        ("9007199254740993", "9007199254740993"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
    ] {
        assert_eq!(body(toml), json, "{toml}");
        assert_eq!(
            serde_json::from_str::<Value>(json).map(|value| canonical(&value)).ok().as_deref(),
            Some(json)
        );
    }
}

#[test]
fn what_json_has_not_is_refused_in_toml() {
    for (value, reason) in [
        ("1979-05-27T07:32:00Z", "dates and times are not used here"),
        ("1979-05-27", "dates and times are not used here"),
        ("07:32:00", "dates and times are not used here"),
        ("inf", "`inf` is no number in JSON"),
        ("-nan", "`-nan` is no number in JSON"),
        ("0xffffffffffffffffff", "too large"),
    ] {
        let problems = from_toml(&BASE.replace("\"${input.sku}\"", value)).expect_err(value);
        assert_eq!(problems.len(), 1, "{}", lines(&problems));
        assert_eq!((problems[0].line, problems[0].path.as_str()), (19, "step[0].action.body.sku"), "{value}");
        assert!(problems[0].reason.contains(reason), "{}", problems[0]);
    }
}

#[test]
fn text_that_is_no_toml_is_refused_with_every_line() {
    let problems = from_toml("saga = \"s\"\nversion == 1\n\nstep = [\nname = 'x").expect_err("no TOML");
    let at: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
    assert!(at.contains(&2) && at.iter().any(|line| *line >= 4), "{}", lines(&problems));
    assert!(
        problems.iter().all(|problem| problem.reason.starts_with("this is no TOML: ")),
        "{}",
        lines(&problems)
    );
    let twice = from_toml("saga = \"s\"\nsaga = \"t\"").expect_err("twice");
    assert_eq!((twice.len(), twice[0].line), (1, 2), "{}", lines(&twice));
}

#[test]
fn text_that_is_no_json_is_refused_with_its_line() {
    for (text, line, reason) in [
        ("", 1, "this is no JSON"),
        ("{\n\"saga\": \"s\",\n}", 3, "this is no JSON: key must be a string"),
        ("{\n\"saga\": 's'}", 2, "this is no JSON"),
        ("{\n// comment\n}", 2, "this is no JSON"),
        ("{} x", 1, "this is no JSON: trailing characters"),
        ("{\"version\": 01}", 1, "this is no JSON"),
        ("{\"version\": NaN}", 1, "this is no JSON"),
    ] {
        let problems = from_json(text).expect_err(text);
        assert_eq!((problems.len(), problems[0].line), (1, line), "{text}\n{}", lines(&problems));
        assert!(problems[0].reason.contains(reason), "{}", problems[0]);
    }
}

#[test]
fn json_names_come_once_and_texts_are_characters() {
    let json = "{\"saga\": \"s\",\n\"version\": 1,\n\"saga\": \"t\",\n\"step\": [{\"name\": \"a\",\n\"name\": \"b\",\n\"reaches\": \"\\ud800\"}]}";
    let problems = from_json(json).expect_err("twice");
    let at: Vec<_> = problems.iter().map(|problem| (problem.line, problem.path.as_str())).collect();
    assert_eq!(at, [(3, "saga"), (5, "step[0].name"), (6, "step[0].reaches")], "{}", lines(&problems));
    assert!(
        problems[0].reason.contains("given twice") && problems[2].reason.contains("no JSON"),
        "{}",
        lines(&problems)
    );
    for text in ["7", "null", "[]", "\"saga\""] {
        let problems = from_json(text).expect_err(text);
        assert_eq!((problems.len(), problems[0].line), (1, 1), "{text}");
        assert!(problems[0].reason.contains("expected a table"), "{}", problems[0]);
    }
}

#[test]
fn json_has_the_lines_of_its_values() {
    let json = "{\n\"saga\": \"s\", \"version\": 1,\n\"claims\": [\n\"a\",\n7],\n\"step\": [{\n\"name\": \"a\",\n\"pivot\":\n\"yes\"}]}";
    let problems = from_json(json).expect_err("problems");
    let at: Vec<_> = problems.iter().map(|problem| (problem.line, problem.path.as_str())).collect();
    assert_eq!(at, [(5, "claims[1]"), (8, "step[0].pivot")], "{}", lines(&problems));
}

#[test]
fn depth_is_limited_before_anything_recurses() {
    let deep = "[".repeat(100_000);
    let deep_json = format!("{{\"saga\": {deep}{}}}", "]".repeat(100_000));
    let problems = from_json(&deep_json).expect_err("too deep");
    assert!(
        problems.iter().any(|problem| problem.reason.contains("nested more than 64 deep")),
        "{}",
        lines(&problems)
    );
    assert!(!from_json(&deep).expect_err("no JSON").is_empty());
    assert!(!from_toml(&format!("saga = {deep}")).expect_err("no TOML").is_empty());
    let nested = |n: usize| (0..n).fold(json!(1), |inner, _| json!([inner]));
    assert!(can_be_kept(&nested(64)) && !can_be_kept(&nested(65)));
    assert_eq!(from_tree(&nested(65)).expect_err("too deep").len(), 1);
}

#[test]
fn equality_is_by_members_and_by_the_text_of_numbers() {
    let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    for (a, b, equal) in [
        (r#"{"a": 1, "b": [true, null]}"#, r#"{"b": [true, null], "a": 1}"#, true),
        ("1", "1.0", false),
        ("10", "1e1", false),
        ("9007199254740993", "9007199254740992", false),
        ("0.1", "0.10", false),
        ("-0", "0", false),
        (r#""1""#, "1", false),
        ("[1, 2]", "[2, 1]", false),
        (r#"{"a": null}"#, "{}", false),
        (r#""\u00e9""#, "\"é\"", true),
    ] {
        let (a, b) = (read(a), read(b));
        assert_eq!(same(&a, &b), equal, "{a} {b}");
        assert_eq!(digest(&a) == digest(&b), equal, "{a} {b}");
    }
    assert_eq!(
        canonical(&read(r#"{"b": {"z": 1, "a": "\n"}, "a": [1.50, {}]}"#)),
        r#"{"a":[1.50,{}],"b":{"a":"\n","z":1}}"#
    );
}

#[test]
fn pointers_are_those_of_rfc_6901() {
    for (text, ok) in [
        ("", true),
        ("/", true),
        ("/a/0/b", true),
        ("/~0~1", true),
        ("a", false),
        ("/~", false),
        ("/~2", false),
    ] {
        assert_eq!(is_pointer(text), ok, "{text}");
    }
}

#[test]
fn names_that_would_not_be_read_again_cannot_be_kept() {
    assert!(!can_be_kept(&json!({"a": [{"$serde_json::private::Number": 1, "b": 2}]})));
    assert!(can_be_kept(&json!({"a": [{"$serde_json": 1, "b": 2}]})));
}
