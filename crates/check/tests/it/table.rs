//! Verdicts are those of the table of which guarantees are enough.

use std::fmt::Write as _;

use amends_check::{Options, Verdict, check_text};

use crate::corpus::within;

/// What an operation's participant declares, whether the operation has a query, and whether that is enough to end by itself.
#[derive(Clone, Copy)]
struct Row {
    declares: &'static str,
    query: bool,
    ends: bool,
}

const fn row(declares: &'static str, query: bool, ends: bool) -> Row {
    Row { declares, query, ends }
}

const ROWS: [Row; 11] = [
    row("idempotency = \"none\"", false, false),
    row("idempotency = \"none\"", true, false),
    row("idempotency = \"none\"\nseals_after = \"15m\"", true, true),
    row("idempotency = \"effect\"", false, false),
    row("idempotency = \"effect\"", true, true),
    row("idempotency = \"effect\"\nseals_after = \"15m\"", true, true),
    row("idempotency = \"replay\"", false, true),
    row("idempotency = \"replay\"", true, true),
    row("idempotency = \"replay\"\nseals_after = \"15m\"", true, true),
    row("fenced = true", false, true),
    row("fenced = true", true, true),
];

/// Where the operation under examination stands; the other step, and the other operation, end by themselves.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Compensatable,
    Pivot,
    Retriable,
}

const OTHER: &str = "[[step]]\nname = \"other\"\n[step.action]\nto = \"sure\"\npost = \"/other\"\n";
const OTHER_UNDO: &str = "[step.compensation]\npost = \"/other/undo\"\n";

fn text(place: Place, action: Row, undo: Row) -> String {
    let mut text = format!(
        "saga = \"table\"\nversion = 1\n[participants.acts]\n{}\n[participants.undoes]\n{}\n[participants.sure]\nidempotency = \"replay\"\n",
        action.declares, undo.declares
    );
    let query = |row: Row, of: &str| match row.query {
        true => format!("query = {{ get = \"/{of}/${{key}}\" }}\n"),
        false => String::new(),
    };
    let pivot = if place == Place::Pivot { "pivot = true\n" } else { "" };
    let step = format!(
        "[[step]]\nname = \"seen\"\n{pivot}[step.action]\nto = \"acts\"\npost = \"/act\"\n{}",
        query(action, "act")
    );
    match place {
        Place::Compensatable => {
            // A fence sees both operations.
            let to = if action.declares.contains("fenced") { "acts" } else { "undoes" };
            let undo =
                format!("[step.compensation]\nto = \"{to}\"\npost = \"/undo\"\n{}", query(undo, "undo"));
            let _ = write!(text, "{step}{undo}{OTHER}{OTHER_UNDO}");
        }
        Place::Pivot => {
            let _ = write!(text, "{OTHER}{OTHER_UNDO}{step}");
        }
        Place::Retriable => {
            let _ = write!(text, "{}{step}", OTHER.replace("[step.action]", "pivot = true\n[step.action]"));
        }
    }
    text
}

fn expect(place: Place, action: Row, undo: Row, ends: bool) {
    // A compensation is unknown after two: what makes it needed, and an answer that is lost.
    let faults = if place == Place::Compensatable { 2 } else { 3 };
    let text = text(place, action, undo);
    let report = check_text(&text, &Options { trust: false, ..within(faults) });
    let wanted = if ends { Verdict::Ends } else { Verdict::MayNeedAPerson };
    assert_eq!(report.verdict, wanted, "{text}\n{}", amends_check::text("it", &report));
}

#[test]
fn action_and_compensation_both_have_to_end_by_themselves() {
    for action in ROWS {
        for undo in ROWS {
            let is_possible = action.declares.contains("fenced") == undo.declares.contains("fenced");
            if is_possible {
                expect(Place::Compensatable, action, undo, action.ends && undo.ends);
            }
        }
    }
}

#[test]
fn a_pivot_ends_by_itself_as_any_action() {
    ROWS.iter().for_each(|row| expect(Place::Pivot, *row, ROWS[6], row.ends));
}

#[test]
fn a_step_after_the_pivot_ends_by_itself_as_any_action() {
    ROWS.iter().for_each(|row| expect(Place::Retriable, *row, ROWS[6], row.ends));
}
