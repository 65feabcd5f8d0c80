//! What the demo says at its end.

use std::path::Path;

use serde::Serialize;

use super::Played;
use crate::table::Table;

/// The result for programs, in the words and the order of the documentation.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    orders: u32,
    completed: usize,
    compensated: usize,
    dead: usize,
    unknown: usize,
    lost: usize,
    doubled: usize,
    left_over: usize,
    restarts: u32,
    seconds: f64,
}

impl From<&Played> for Line {
    fn from(played: &Played) -> Self {
        let verdict = &played.verdict;
        Self {
            orders: played.orders,
            completed: verdict.completed,
            compensated: verdict.compensated,
            dead: verdict.dead,
            unknown: verdict.unknown,
            // An effect that was undone is one that its completed saga lacks.
            lost: verdict.lost + verdict.wrongly_undone,
            doubled: verdict.doubled,
            left_over: verdict.left_over,
            restarts: played.restarts,
            seconds: (played.seconds * 10.0).round() / 10.0,
        }
    }
}

/// The result for people.
pub(super) fn words(played: &Played, kept: Option<&Path>) -> String {
    let verdict = &played.verdict;
    let mut out = format!(
        "{} orders through inventory, payment and shipping in {:.1} s (seed {})\n\n",
        played.orders, played.seconds, played.seed
    );
    let mut faults = Table::new(&["WHAT WENT WRONG", "TIMES"]);
    for (name, times) in &played.report.faults {
        faults.row([name.as_str(), &times.to_string()]);
    }
    for (name, times) in [
        ("a participant killed and restarted", played.report.crashes),
        ("the engine killed (kill -9) and restarted", played.restarts),
        ("an order cancelled by its customer", played.cancels),
        ("a submission repeated by its client", played.repeated),
    ] {
        if times > 0 {
            faults.row([name, &times.to_string()]);
        }
    }
    out.push_str(&faults.to_string());
    out.push_str(&format!("\nThen faults stopped; {:.1} s later:\n\n", played.settled_after.as_secs_f64()));
    let mut sagas = Table::new(&["SAGAS", ""]);
    for (count, what) in [
        (verdict.completed, "completed: every effect happened once"),
        (verdict.compensated, "compensated: refused or cancelled, no effect is left"),
        (verdict.dead, "dead: waiting for a person"),
        (verdict.unknown, "not ended: what happened is not known"),
    ] {
        sagas.row([count.to_string().as_str(), what]);
    }
    out.push_str(&sagas.to_string());
    out.push_str("\nEvery participant's ledger compared with every saga:\n\n");
    let mut books = Table::new(&["EFFECTS", ""]);
    for (count, what) in [
        (verdict.lost + verdict.wrongly_undone, "lost: a completed saga lacks it"),
        (verdict.doubled, "doubled: it happened twice"),
        (verdict.left_over, "left over: it happened, was not undone, and no saga completed with it"),
    ] {
        books.row([count.to_string().as_str(), what]);
    }
    out.push_str(&books.to_string());
    for finding in &verdict.findings {
        out.push_str(&format!("  {finding}\n"));
    }
    out.push_str(match (verdict.is_clean(), kept.is_some()) {
        (true, false) => "\nNothing lost, nothing doubled, nothing left over. Look for yourself: `amends demo --keep books`.\n",
        (true, true) => "\nNothing lost, nothing doubled, nothing left over. The books are in the folder you named.\n",
        (false, _) => "\nThis must not happen. Please report it with the seed and what `amends demo --keep books` leaves.\n",
    });
    if verdict.is_clean() {
        out.push_str("Your own: `amends check FILE` reads a definition, `amends serve` starts a server.\n");
    }
    out
}
