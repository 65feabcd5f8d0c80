//! Sagas and journals as people read them.

use serde_json::Value;

use crate::problem::reason;
use crate::table::{Table, tame};

/// A list of sagas.
pub(crate) fn rows(sagas: &[Value]) -> Table {
    let mut table = Table::new(&["ID", "SAGA", "STATUS", "STATE", "STEP", "UPDATED", "REASON"]);
    for saga in sagas {
        table.row([
            text(&saga["id"]),
            text(&saga["saga"]),
            text(&saga["status"]),
            text(&saga["business_state"]),
            text(&saga["step"]),
            text(&saga["updated_at"]),
            reason(&saga["reason"]),
        ]);
    }
    table.without_empty_columns()
}

/// One saga with its steps.
pub(crate) fn whole(saga: &Value) -> String {
    let mut out = format!(
        "{}  {} ({})\n{} version {}, saga version {}, updated {}\n",
        text(&saga["id"]),
        text(&saga["status"]),
        text(&saga["business_state"]),
        text(&saga["saga"]),
        text(&saga["definition_version"]),
        text(&saga["version"]),
        text(&saga["updated_at"]),
    );
    if let Some(reason) = saga["reason"].as_str() {
        out.push_str(&format!("reason: {}\n", tame(reason)));
    }
    if saga["overdue"] == true {
        out.push_str("overdue: its deadline passed after the point of no return\n");
    }
    let claims: Vec<String> = saga["claims"].as_array().into_iter().flatten().map(text).collect();
    if !claims.is_empty() {
        out.push_str(&format!("claims: {}\n", claims.join(", ")));
    }
    let steps = saga["steps"].as_array().map_or(&[][..], Vec::as_slice);
    if !steps.is_empty() {
        out.push_str(&format!("\n{}", operations(steps)));
    }
    out
}

/// The operations of a saga's steps: each action, and each compensation that has a part in it.
fn operations(steps: &[Value]) -> Table {
    let mut table =
        Table::new(&["STEP", "OPERATION", "STATUS", "KNOWLEDGE", "ATTEMPTS", "SERIAL", "DUE", "REASON"]);
    for step in steps {
        table.row(operation(step, text(&step["name"]), "action"));
        let compensation = &step["compensation"];
        if matches!(compensation["attempts"].as_u64(), Some(1..)) || compensation["reason"].is_string() {
            table.row(operation(compensation, String::new(), "compensation"));
        }
    }
    table.without_empty_columns()
}

fn operation(at: &Value, name: String, kind: &str) -> [String; 8] {
    let attempts = at["attempts"].as_u64().filter(|attempts| *attempts > 0);
    [
        name,
        kind.to_owned(),
        text(&at["status"]),
        text(&at["knowledge"]),
        attempts.map(|n| n.to_string()).unwrap_or_default(),
        text(&at["serial"]),
        text(&at["due_at"]),
        reason(&at["reason"]),
    ]
}

/// A journal.
pub(crate) fn journal(entries: &[Value]) -> Table {
    let mut table = Table::new(&["SEQ", "AT", "KIND", "STEP", "OPERATION", "BY", "MORE"]);
    for entry in entries {
        table.row(journal_row(entry));
    }
    table.without_empty_columns()
}

/// One entry on a line, for `watch`.
pub(crate) fn journal_line(entry: &Value) -> String {
    let cells = journal_row(entry);
    let filled: Vec<&str> = cells.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
    format!("{}\n", filled.join("  "))
}

fn journal_row(entry: &Value) -> [String; 7] {
    const SHOWN: [&str; 6] = ["seq", "at", "kind", "step", "operation", "by"];
    let more = entry
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !SHOWN.contains(&name.as_str()) && !value.is_null());
    let more: Vec<String> = more.map(|(name, value)| format!("{name}={}", text(value))).collect();
    let [seq, at, kind, step, operation, by] = SHOWN.map(|name| text(&entry[name]));
    [seq, at, kind, step, operation, by, tame(&more.join(" "))]
}

/// A value on one line: texts as they are, everything else as JSON, nothing for null.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => tame(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => tame(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn saga_is_shown_with_the_operations_that_had_a_part() {
        let saga = json!({
            "id": "order:1", "saga": "order", "version": 9, "definition_version": 1, "status": "dead",
            "business_state": "MANUAL", "reason": "a refund was refused", "claims": ["order:1"], "updated_at": "T",
            "steps": [
                {"name": "charge", "status": "dead", "knowledge": "done", "attempts": 1, "serial": "c-1",
                 "compensation": {"status": "dead", "knowledge": "rejected", "attempts": 2, "reason": "too old"}},
                {"name": "confirm", "status": "pending", "knowledge": "unsent", "attempts": 0,
                 "compensation": {"attempts": 0}}]});
        let expected = "\
order:1  dead (MANUAL)
order version 1, saga version 9, updated T
reason: a refund was refused
claims: order:1

STEP     OPERATION     STATUS   KNOWLEDGE  ATTEMPTS  SERIAL  REASON
charge   action        dead     done       1         c-1
         compensation  dead     rejected   2                 too old
confirm  action        pending  unsent
";
        assert_eq!(whole(&saga), expected);
    }

    #[test]
    fn journal_shows_what_an_entry_has_beyond_the_usual() {
        let entry = json!({"seq": 3, "at": "T", "kind": "answered", "step": "charge", "operation": "action",
                           "attempt": 1, "fact": {"a": 1}, "by": null});
        assert_eq!(journal_line(&entry), "3  T  answered  charge  action  attempt=1 fact={\"a\":1}\n");
    }
}
