//! `amends check`: everything that registration would refuse or warn of, and everything that can go wrong later, without a server.

use std::collections::BTreeSet;

use amends_check::{Options, Verdict};
use amends_core::definition::{self, Checked, Diagnostic};
use serde_json::{Value, json};

use crate::args::{Check, Graph};
use crate::commands::definition::is_json;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{self, Output};

/// Reads a definition and explores it; exit code 1 if it would be refused or is unsafe, with `--strict` also if a person may be needed.
pub(crate) fn run(check: &Check, output: Output) -> Result<Exit, Failure> {
    let text = input::read(&check.file)?;
    let name = input::name(&check.file);
    let read = if is_json(&check.file) { definition::from_json(&text) } else { definition::from_toml(&text) };
    let known = match &check.config {
        Some(file) => Some(Config::load(Some(file))?.0.participants.into_keys().collect::<BTreeSet<_>>()),
        None => None,
    };
    let (definition, warnings) = match read {
        Ok(Checked { definition, warnings }) => (definition, warnings),
        Err(problems) => return refused(&name, &problems, check.faults, output),
    };
    if let Some(Graph::Mermaid) = check.graph {
        output::print(&amends_check::mermaid(&definition))?;
        return Ok(Exit::Done);
    }
    let mut warnings = warnings;
    let missing = |name: &&String| known.as_ref().is_some_and(|known| !known.contains(*name));
    warnings.extend(definition.participants.keys().filter(missing).map(|name| unnamed(name)));
    let options = Options { faults: check.faults, time_max: check.time, ..Options::default() };
    let report = amends_check::check(&definition, &options);
    let mut value = serde_json::to_value(&report).expect("invariant: a report is plain data");
    value["warnings"] = warnings.iter().map(self::value).collect();
    output.one(&value, || amends_check::text(&name, &report) + &lines("warning", &warnings))?;
    Ok(match report.verdict {
        Verdict::Refused | Verdict::Unsafe => Exit::Failed,
        Verdict::MayNeedAPerson | Verdict::Unfinished if check.strict => Exit::Failed,
        Verdict::Ends | Verdict::MayNeedAPerson | Verdict::Unfinished => Exit::Done,
    })
}

fn refused(name: &str, problems: &[Diagnostic], faults: u32, output: Output) -> Result<Exit, Failure> {
    let report = json!({
        "verdict": Verdict::Refused.as_str(),
        "faults": faults,
        "states": 0,
        "depth": 0,
        "problems": problems.iter().map(value).collect::<Vec<_>>(),
        "persons": [],
        "trust": [],
        "advice": [],
        "warnings": [],
    });
    output.one(&report, || {
        format!("{name}: refused, {} problem(s)\n{}", problems.len(), lines("problem", problems))
    })?;
    Ok(Exit::Failed)
}

/// A warning about a participant that is described but, as things are, cannot be called.
fn unnamed(participant: &str) -> Diagnostic {
    Diagnostic {
        line: 0,
        path: format!("participants.{participant}"),
        reason: format!("the configuration does not say where `{participant}` is"),
        remedy: format!("add [participants.{participant}] with its url"),
    }
}

fn value(found: &Diagnostic) -> Value {
    json!({ "line": found.line, "path": found.path, "reason": found.reason, "remedy": found.remedy })
}

fn lines(kind: &str, found: &[Diagnostic]) -> String {
    found.iter().map(|diagnostic| format!("  {kind}: {diagnostic}\n")).collect()
}
