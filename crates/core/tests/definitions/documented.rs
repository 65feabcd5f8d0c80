//! `docs/definition.md` says what the reader does.

use std::collections::BTreeSet;

use amends_core::definition::from_toml;

use crate::{BASE, checked, lines};

const DOCS: &str = include_str!("../../../../docs/definition.md");

#[test]
fn the_first_example_is_a_definition_without_problems_or_warnings() {
    let example =
        DOCS.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let warnings = checked(example).warnings;
    assert!(warnings.is_empty(), "{}", lines(&warnings));
}

#[test]
fn every_example_rule_can_be_used() {
    let rules = DOCS.split("```toml\n").nth(4).and_then(|rest| rest.split("```").next()).expect("an example");
    crate::one_action(rules);
}

#[test]
fn every_field_has_its_row() {
    let mut fields = BTreeSet::new();
    for (from, to) in [
        ("version = 1", "version = 1\nzzz = 1"),
        ("timeout = \"3s\"", "zzz = 1"),
        ("timeout = \"3s\"", "retry = { zzz = 1 }"),
        ("timeout = \"3s\"", "on_unknown = { zzz = 1 }"),
        ("deadline = \"30m\"", "states = { zzz = 1 }"),
        ("fenced = true", "fenced = true\nzzz = 1"),
        ("pivot = true", "pivot = true\nzzz = 1"),
        ("to = \"bank\"", "to = \"bank\"\nzzz = 1"),
        ("get = \"/refunds/${key}\"", "get = \"/refunds/${key}\", zzz = 1"),
        ("to = \"bank\"", "to = \"bank\"\noutcome = { at = \"/s\", done = [1], zzz = 1 }"),
    ] {
        let problems = from_toml(&BASE.replacen(from, to, 1)).expect_err(to);
        assert_eq!(problems.len(), 1, "{to}\n{}", lines(&problems));
        let names = problems[0].remedy.strip_prefix("remove it; there may be ").expect("a list of fields");
        fields.extend(names.split(", ").map(str::to_owned));
    }
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        let row = DOCS.lines().any(|line| {
            let first = line.strip_prefix("| ").and_then(|line| line.split(" | ").next()).unwrap_or_default();
            first.contains(&format!("`{field}`"))
                || [format!("`[[{field}]]`"), format!("`[{field}]`"), format!("`[{field}.NAME]`")]
                    .contains(&first.to_owned())
                || line.starts_with(&format!("{field} = "))
        });
        assert!(row, "`{field}` is not documented");
    }
}
