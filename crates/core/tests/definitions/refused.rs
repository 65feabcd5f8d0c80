//! Every rule by which a definition is refused, with line, place, reason and remedy.

use amends_core::definition::{Diagnostic, from_json, from_toml, from_tree};

use crate::{edited, lines, rows};

/// Checks rows `what stands in the base => what is put there | line path | reason | remedy`. A row that begins with `&` is
/// a further problem of the same definition. There must be these problems and no others; the same tree as JSON and as it is
/// stored has the same ones.
fn check(table: &str) {
    let mut cases: Vec<(&str, Vec<[&str; 3]>)> = Vec::new();
    for row in rows(table) {
        let [edit, place, reason, remedy] = row[..] else { panic!("four cells are expected in {row:?}") };
        if edit == "&" {
            cases.last_mut().expect("a row before").1.push([place, reason, remedy]);
        } else {
            cases.push((edit, vec![[place, reason, remedy]]));
        }
    }
    for (edit, expected) in cases {
        let (from, to) = edit.split_once("=>").expect("an edit");
        let text = edited(from, to);
        let problems = from_toml(&text).expect_err(edit);
        assert_eq!(problems.len(), expected.len(), "{edit}\n{}", lines(&problems));
        for (problem, [place, reason, remedy]) in problems.iter().zip(&expected) {
            assert_eq!(format!("{} {}", problem.line, problem.path).trim(), *place, "{edit}\n{problem}");
            assert!(problem.reason.contains(reason), "{edit}\n{problem}\nis to say: {reason}");
            assert!(problem.remedy.contains(remedy), "{edit}\n{problem}\nis to advise: {remedy}");
        }
        let tree: serde_json::Value = toml::from_str(&text).expect("TOML");
        let from_tree = from_tree(&tree).expect_err(edit);
        assert!(from_tree.iter().all(|problem| problem.line == 0));
        assert_eq!(without_lines(&from_tree), without_lines(&problems), "{edit}");
        let from_json = from_json(&serde_json::to_string_pretty(&tree).expect("JSON")).expect_err(edit);
        assert!(from_json.iter().all(|problem| problem.line > 0));
        assert_eq!(without_lines(&from_json), without_lines(&problems), "{edit}");
    }
}

/// Problems in an order that does not depend on lines. Reasons that name another line are cut before it.
fn without_lines(problems: &[Diagnostic]) -> Vec<(String, String, String)> {
    let reason = |text: &str| text.split(" in line ").next().unwrap_or_default().split(" at step[").next().unwrap_or_default().to_owned();
    let mut all: Vec<_> =
        problems.iter().map(|p| (p.path.clone(), reason(&p.reason), p.remedy.clone())).collect();
    all.sort();
    all
}

#[test]
fn unknown_fields_are_refused_with_what_was_probably_meant() {
    check(
        r#"
        version = 1 => version = 1\nclaim = []         | 3 claim                      | no field `claim` here   | did you mean `claims`?
        version = 1 => version = 1\nowner = "me"       | 3 owner                      | no field `owner` here   | there may be claims, deadline, defaults,
        timeout = "3s" => time_out = "3s"              | 6 defaults.time_out          | no field `time_out`     | did you mean `timeout`?
        timeout = "3s" => budget = "3s"                | 6 defaults.budget            | no field `budget`       | there may be on_unknown, retry, timeout
        key_ttl = "24h" => "key-ttl" = "24h"           | 12 participants.bank.key-ttl | no field `key-ttl`      | did you mean `key_ttl`?
        pivot = true => pivoted = true\npivot = true   | 38 step[2].pivoted           | no field `pivoted`      | did you mean `pivot`?
        serial = "/no"\nquery => serials = "/x"\nserial = "/no"\nquery | 30 step[1].action.serials | no field `serials` | did you mean `serial`?
        query = { get = "/charges/${key}" } => query = { get = "/charges/${key}", retry = {} } | 31 step[1].action.query.retry | no field `retry` | there may be
        timeout = "3s" => retry = { max_attempt = 2 }  | 6 defaults.retry.max_attempt | no field `max_attempt`  | did you mean `max_attempts`?
        timeout = "3s" => on_unknown = { verifyfor = "2h" } | 6 defaults.on_unknown.verifyfor | no field `verifyfor` | did you mean `verify_for`?
        deadline = "30m" => states = { cancelled = "X" } | 4 states.cancelled         | no field `cancelled`    | did you mean `canceled`?
        query = { get = "/charges/${key}" } => query = { get = "/c", outcome = { at = "/s", doen = ["S"], rejected = ["F"] } } | 31 step[1].action.query.outcome.doen | no field `doen` | did you mean `done`?
        "#,
    );
}

#[test]
fn what_is_missing_or_of_another_kind_is_refused() {
    check(
        r#"
        saga = "order" =>                                | 1                      | `saga` is missing          | saga = "order-fulfilment"
        version = 1 =>                                   | 1                      | `version` is missing       | version = 1
        name = "reserve" =>                              | 14 step[0]             | `name` is missing          | name = "reserve"
        &                                                | 28 step[1].action.body.reservation | a step `reserve` that does not exist | name a step
        saga = "order" => saga = 7                       | 1 saga                 | expected a text, found a number | saga = "order-fulfilment"
        version = 1 => version = "1"                     | 2 version              | expected a whole number, found a text | version = 1
        version = 1 => version = 0                       | 2 version              | 0 is not a whole number from 1 | in that range
        version = 1 => version = 1.0                     | 2 version              | 1.0 is not a whole number  | in that range
        version = 1 => version = -3                      | 2 version              | -3 is not a whole number   | in that range
        claims = ["order:${id}"] => claims = "order:${id}" | 3 claims             | expected a list of claims, found a text | claims = ["order:${id}"]
        claims = ["order:${id}"] => claims = { a = 1 }   | 3 claims               | found a table              | claims = ["order:${id}"]
        claims = ["order:${id}"] => claims = [7]         | 3 claims[0]            | expected a text, found a number | "order:${id}"
        deadline = "30m" => deadline = 30                | 4 deadline             | a duration, a text with its unit, found a number | deadline = "30s"
        timeout = "3s" => retry = 5                      | 6 defaults.retry       | expected a table           | retry = { max_attempts = 3
        timeout = "3s" => on_unknown = "2"               | 6 defaults.on_unknown  | expected a table           | on_unknown = {
        timeout = "3s" => on_unknown = { verify = "1m" } | 6 defaults.on_unknown.verify | a list of durations, found a text | verify = ["1m"]
        timeout = "3s" => on_unknown = { verify = [] }   | 6 defaults.on_unknown.verify | 0 entries            | the last one repeats
        timeout = "3s" => on_unknown = { queries = 0 }   | 6 defaults.on_unknown.queries | 0 is not a whole number from 1 to 100 | in that range
        timeout = "3s" => retry = { factor = 0.5 }       | 6 defaults.retry.factor | 0.5 is not a number from 1 to 100 | in that range
        timeout = "3s" => retry = { jitter = 2 }         | 6 defaults.retry.jitter | 2 is not a number from 0 to 1 | in that range
        timeout = "3s" => retry = { max_attempts = 0 }   | 6 defaults.retry.max_attempts | 0 is not a whole number from 1 to 100 | in that range
        fenced = true => fenced = "yes"                  | 9 participants.stock.fenced | expected true or false, found a text | fenced = true
        pivot = true => pivot = true\nafter = "charge"   | 39 step[2].after       | a list of names of steps, found a text | after = ["charge"]
        pivot = true => pivot = true\neffect = "some"    | 39 step[2].effect      | may only be "none"         | nothing to undo
        pivot = true => pivot = true\nreaches = " "      | 39 step[2].reaches     | a business state has 1 to 64 bytes | "RESERVED"
        "#,
    );
}

#[test]
fn durations_have_a_unit_and_a_limit() {
    check(
        r#"
        "30m" => "30"      | 4 deadline | `30` is no duration                   | "500ms", "3s", "15m", "24h" or "5d"
        "30m" => "30 m"    | 4 deadline | `30 m` is no duration                 | "3s"
        "30m" => "1.5h"    | 4 deadline | `1.5h` is no duration                 | "3s"
        "30m" => "-1s"     | 4 deadline | `-1s` is no duration                  | "3s"
        "30m" => "m"       | 4 deadline | `m` is no duration                    | "3s"
        "30m" => "1w"      | 4 deadline | `1w` is no duration                   | "3s"
        "30m" => "0s"      | 4 deadline | out of range: a duration is at least 1ms | "3s"
        "30m" => "3651d"   | 4 deadline | at most 3650d                         | "3s"
        "30m" => "99999999999999999999d" | 4 deadline | out of range            | "3s"
        "3s" => "61m"      | 6 defaults.timeout | longer than the 1h            | at most "1h"
        &                  | 6 step[0].action.retry | nothing | nothing
        "#
        .split("&")
        .next()
        .expect("a table"),
    );
}
