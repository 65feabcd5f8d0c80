//! A definition as a picture.

use std::fmt::Write as _;

use amends_core::definition::{Definition, Idempotency, Operation, StepKind};

/// A definition as a Mermaid flow chart: steps in the order in which they happen, with their participants and what these
/// guarantee; the undo of each beside it; the point of no return as a hexagon.
#[must_use]
pub fn mermaid(definition: &Definition) -> String {
    let mut chart = String::from("flowchart TD\n");
    let _ = writeln!(chart, "    begin([\"{} {}\"])", escaped(&definition.name), definition.version);
    for (index, step) in definition.steps.iter().enumerate() {
        let label = match &step.action {
            Some(action) => format!("<b>{}</b><br/>{}", escaped(&step.name), operation(action)),
            None => format!("<b>{}</b>", escaped(&step.name)),
        };
        let _ = match step.kind {
            StepKind::Pivot => writeln!(chart, "    s{index}{{{{\"{label}<br/>point of no return\"}}}}"),
            StepKind::Compensatable | StepKind::Retriable => writeln!(chart, "    s{index}[\"{label}\"]"),
        };
        if let Some(undo) = &step.compensation {
            let _ =
                writeln!(chart, "    u{index}[/\"undo {}<br/>{}\"/]", escaped(&step.name), operation(undo));
        }
    }
    for (index, step) in definition.steps.iter().enumerate() {
        if step.after.is_empty() {
            let _ = writeln!(chart, "    begin --> s{index}");
        }
        for before in &step.after {
            let _ = writeln!(chart, "    s{before} --> s{index}");
        }
        if step.compensation.is_some() {
            let _ = writeln!(chart, "    s{index} -.-> u{index}");
        }
    }
    let ends = definition.steps.iter().enumerate().filter(|(_, step)| step.dependants.is_empty());
    for (index, _) in ends {
        let _ = writeln!(chart, "    s{index} --> done(((\"{}\")))", escaped(&definition.states.done));
    }
    chart
}

/// The participant, and what it guarantees of this operation.
fn operation(operation: &Operation) -> String {
    let idempotency = match operation.idempotency {
        Idempotency::None => "none",
        Idempotency::Effect => "effect",
        Idempotency::Replay => "replay",
    };
    let mut label = format!("{}: {idempotency}", escaped(&operation.to));
    for (is, word) in [
        (operation.fenced, "fenced"),
        (operation.query.is_some(), "query"),
        (operation.seals_after_ms.is_some(), "seals"),
    ] {
        if is {
            let _ = write!(label, ", {word}");
        }
    }
    label
}

/// Within quotes Mermaid reads HTML: nothing of a name may be taken for it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            c => out.push(c),
        }
    }
    out
}
