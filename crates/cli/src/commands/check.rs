//! `amends check`: everything that registration would refuse or warn of, without a server.

use std::collections::BTreeSet;

use amends_core::definition::{self, Checked, Diagnostic};
use serde_json::{Value, json};

use crate::args::Check;
use crate::commands::definition::is_json;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::Output;

/// Reads a definition; exit code 1 if it would be refused.
pub(crate) fn run(check: &Check, output: Output) -> Result<Exit, Failure> {
    let text = input::read(&check.file)?;
    let name = input::name(&check.file);
    let read = if is_json(&check.file) { definition::from_json(&text) } else { definition::from_toml(&text) };
    let known = match &check.config {
        Some(file) => Some(Config::load(Some(file))?.0.participants.into_keys().collect::<BTreeSet<_>>()),
        None => None,
    };
    match read {
        Ok(Checked { definition, mut warnings }) => {
            let missing = |name: &&String| known.as_ref().is_some_and(|known| !known.contains(*name));
            warnings.extend(definition.participants.keys().filter(missing).map(|name| unnamed(name)));
            let report = json!({
                "verdict": "accepted",
                "saga": definition.name,
                "version": definition.version,
                "digest": definition.digest,
                "problems": [],
                "warnings": warnings.iter().map(value).collect::<Vec<_>>(),
            });
            output.one(&report, || {
                let count = match definition.steps.len() {
                    1 => "1 step".to_owned(),
                    n => format!("{n} steps"),
                };
                let first = format!(
                    "{name}: {} version {}, {count}: accepted\n",
                    definition.name, definition.version
                );
                first + &lines("warning", &warnings)
            })?;
            Ok(Exit::Done)
        }
        Err(problems) => {
            let report = json!({
                "verdict": "refused",
                "problems": problems.iter().map(value).collect::<Vec<_>>(),
                "warnings": [],
            });
            output.one(&report, || {
                format!("{name}: refused, {} problem(s)\n{}", problems.len(), lines("problem", &problems))
            })?;
            Ok(Exit::Failed)
        }
    }
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
