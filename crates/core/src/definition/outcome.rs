//! `serial` and `outcome`: what is read out of an answer.

use std::collections::BTreeMap;

use super::diagnostic::Report;
use super::fields::{At, Fields};
use super::tree::Kind;
use super::{OutcomeRule, OutcomeWord};
use crate::json;

/// The most JSON pointers that `serial` or `at` may have.
pub const POINTERS_MAX: usize = 16;
/// The most values, and the most codes, that an outcome rule may have.
pub const OUTCOME_VALUES_MAX: usize = 256;

const RULE_EXAMPLE: &str = "outcome = { at = \"/status\", done = [\"SUCCESS\"], rejected = [\"FAIL\"] }";

const WORDS: [(&str, OutcomeWord); 6] = [
    ("done", OutcomeWord::Done),
    ("rejected", OutcomeWord::Rejected),
    ("in_progress", OutcomeWord::InProgress),
    ("not_executed", OutcomeWord::NotExecuted),
    ("never_seen", OutcomeWord::NeverSeen),
    ("sealed", OutcomeWord::Sealed),
];

/// Reads one JSON pointer or a list of them.
pub(super) fn read_pointers(at: &At<'_>, report: &mut Report) -> Vec<String> {
    let items = at.one_or_many();
    if items.is_empty() || items.len() > POINTERS_MAX {
        report.problem(
            &at.place,
            format!("this names {} JSON pointers, it is to be 1 to {POINTERS_MAX}", items.len()),
            "name where it stands, as in \"/charge_id\"",
        );
        return Vec::new();
    }
    let mut pointers = Vec::new();
    for item in items {
        let Some(text) = item.text("/charge_id", report) else { continue };
        if json::is_pointer(text) {
            pointers.push(text.to_owned());
        } else {
            report.problem(
                &item.place,
                format!("{text:?} is no JSON pointer"),
                format!(
                    "start it with a slash, as in \"/{}\"",
                    text.trim_start_matches('/').replace('.', "/").replace('~', "~0")
                ),
            );
        }
    }
    pointers
}

/// Reads an outcome rule of a query or of an operation.
pub(super) fn read_rule(at: &At<'_>, of_query: bool, report: &mut Report) -> Option<OutcomeRule> {
    let mut fields = at.fields(RULE_EXAMPLE, report)?;
    let problems = report.problems();
    let mut rule = OutcomeRule::default();
    let pointers = fields.get("at");
    if let Some(at) = &pointers {
        rule.at = read_pointers(at, report);
    }
    for (name, word) in WORDS {
        if let Some(at) = fields.get(name)
            && may_say(word, of_query, &at, report)
        {
            read_values(&mut rule, &at, word, report);
        }
    }
    if let Some(at) = fields.get("codes") {
        rule.codes = read_codes(&at, of_query, report);
    }
    // What could not be read is not missing as well.
    if report.problems() == problems {
        check_rule(&rule, pointers.is_some(), &fields, report);
    }
    fields.finish(report);
    Some(rule)
}

fn check_rule(rule: &OutcomeRule, has_at: bool, fields: &Fields<'_>, report: &mut Report) {
    if has_at && rule.values.is_empty() {
        report.problem(
            &fields.place,
            "`at` says where to look, but no value means anything",
            "add the values that mean each outcome, as in `done = [\"SUCCESS\"], rejected = [\"FAIL\"]`",
        );
    }
    if !has_at && !rule.values.is_empty() {
        report.problem(
            &fields.place,
            "`at` is missing: where do the values stand?",
            format!("write `{RULE_EXAMPLE}`"),
        );
    }
    if !has_at && rule.values.is_empty() && rule.codes.is_empty() {
        report.problem(
            &fields.place,
            "this rule says nothing",
            format!("write `{RULE_EXAMPLE}`, or leave it out"),
        );
    }
    if rule.values.len() > OUTCOME_VALUES_MAX || rule.codes.len() > OUTCOME_VALUES_MAX {
        report.problem(
            &fields.place,
            format!("a rule has at most {OUTCOME_VALUES_MAX} values and {OUTCOME_VALUES_MAX} codes"),
            "keep those that occur; anything else means unknown",
        );
    }
}

/// Whether a word has a meaning here; reported if not.
fn may_say(word: OutcomeWord, of_query: bool, at: &At<'_>, report: &mut Report) -> bool {
    let reason = match word {
        OutcomeWord::Done | OutcomeWord::Rejected | OutcomeWord::InProgress => return true,
        OutcomeWord::NotExecuted if of_query => {
            "`not_executed` speaks of one attempt, a query of all of them"
        }
        OutcomeWord::NeverSeen if !of_query => "only a query can say `never_seen`",
        OutcomeWord::Sealed if !of_query => "only a query can say `sealed`",
        OutcomeWord::NotExecuted | OutcomeWord::NeverSeen | OutcomeWord::Sealed => return true,
    };
    let remedy =
        if of_query { "write `never_seen` or `in_progress`" } else { "move it into the query's `outcome`" };
    report.problem(&at.place, reason, remedy);
    false
}

fn read_values(rule: &mut OutcomeRule, at: &At<'_>, word: OutcomeWord, report: &mut Report) {
    for item in at.list("values", "[\"SUCCESS\"]", report).unwrap_or_default() {
        match &item.node.kind {
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => {}
            Kind::Unreadable | Kind::List(_) | Kind::Table(_) => {
                item.misfit("a text, number, boolean or null", RULE_EXAMPLE, report);
                continue;
            }
        }
        if rule.values.len() > OUTCOME_VALUES_MAX {
            return;
        }
        let value = item.node.to_value();
        if rule.values.iter().any(|(known, _)| json::same(known, &value)) {
            report.problem(&item.place, format!("{value} is named twice"), "let each value mean one outcome");
        } else {
            rule.values.push((value, word));
        }
    }
}

fn read_codes(at: &At<'_>, of_query: bool, report: &mut Report) -> BTreeMap<u16, OutcomeWord> {
    let mut codes = BTreeMap::new();
    for (name, at) in
        at.members("statuses", "codes = { \"404\" = \"never_seen\" }", report).unwrap_or_default()
    {
        let code = name.parse::<u16>().ok().filter(|code| (200..=599).contains(code) && name.len() == 3);
        if code.is_none() {
            report.problem(
                &at.place,
                format!("{name:?} is no status of an answer"),
                "write three digits from 200 to 599, as in \"404\"",
            );
        }
        let Some(text) = at.text("never_seen", report) else { continue };
        let word = WORDS.into_iter().find(|(name, _)| *name == text).map(|(_, word)| word);
        match (code, word) {
            (_, None) => report.problem(
                &at.place,
                format!("{text:?} is no outcome"),
                "write done, rejected, in_progress, not_executed, never_seen or sealed",
            ),
            (None, Some(_)) => {}
            (Some(code), Some(word)) => {
                if may_say(word, of_query, &at, report) {
                    codes.insert(code, word);
                }
            }
        }
    }
    codes
}
