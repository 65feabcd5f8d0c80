//! Definitions, templates, answers and requests: everything about a saga that does not move.

mod accepted;
mod answers;
mod arbitrary;
mod documented;
mod examples;
mod inputs;
mod notation;
mod redis;
mod refused;
mod requests;
mod templates;
mod warned;

use amends_core::Definition;
use amends_core::definition::{Checked, Diagnostic, from_toml};

/// A definition that has a bit of everything, without problems or warnings. Tests change a line of it.
const BASE: &str = r#"saga = "order"
version = 1
claims = ["order:${id}"]
deadline = "30m"
[defaults]
timeout = "3s"
[participants.stock]
idempotency = "replay"
fenced = true
[participants.bank]
idempotency = "effect"
key_ttl = "24h"
seals_after = "15m"
[[step]]
name = "reserve"
[step.action]
to = "stock"
post = "/reservations/${id}"
body = { sku = "${input.sku}" }
serial = "/no"
[step.compensation]
post = "/releases"
body = { of = "${action_key}" }
[[step]]
name = "charge"
[step.action]
to = "bank"
post = "/charges"
body = { reservation = "${steps.reserve.serial}" }
serial = "/no"
query = { get = "/charges/${key}" }
[step.compensation]
post = "/refunds"
body = { charge = "${steps.charge.serial}" }
query = { get = "/refunds/${key}" }
[[step]]
name = "confirm"
pivot = true
[step.action]
to = "stock"
post = "/shipments"
[[step]]
name = "notify"
[step.action]
to = "stock"
post = "/mails"
"#;

/// The base with a part of it replaced, in which `\n` is a line break.
fn edited(from: &str, to: &str) -> String {
    let (from, to) = (from.trim().replace("\\n", "\n"), to.trim().replace("\\n", "\n"));
    assert!(BASE.contains(&from), "the base has no `{from}`");
    BASE.replacen(&from, &to, 1)
}

/// The definition of a text that has no problems.
fn checked(text: &str) -> Checked {
    from_toml(text).unwrap_or_else(|problems| panic!("{}\nin\n{text}", lines(&problems)))
}

fn definition(text: &str) -> std::sync::Arc<Definition> {
    checked(text).definition
}

/// A definition of one step whose action has these lines, at a participant that replays.
fn one_action(lines: &str) -> std::sync::Arc<Definition> {
    definition(&format!(
        "saga = \"one\"\nversion = 1\n[participants.p]\nidempotency = \"replay\"\n[[step]]\nname = \"a\"\neffect = \"none\"\n\
         [step.action]\nto = \"p\"\npost = \"/a\"\n{lines}"
    ))
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}

/// Rows of a text table: cells between bars, without the white space around them. Empty lines are left out.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| line.split(" | ").map(str::trim).collect())
        .collect()
}
