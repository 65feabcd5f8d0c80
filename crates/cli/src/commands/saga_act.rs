//! `amends saga cancel|retry|resolve|skip|close`: what a person does with a saga. The server decides and keeps the record.

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use crate::args::saga_id;
use crate::client::{Api, Payload};
use crate::commands::{saga, saga_view};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Output, say};

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Its id
    #[arg(value_parser = saga_id)]
    id: String,
    /// Why; kept in its journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Its id
    #[arg(value_parser = saga_id)]
    id: String,
    /// Why; kept in its journal
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The version you saw: refused if it has moved since; default: what it is now, shown before it is done
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Do not ask for confirmation on a terminal
    #[arg(long, short = 'y')]
    yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    common: Common,
    /// The step; default: the only one that needs a person
    #[arg(value_name = "STEP")]
    step: Option<String>,
    /// The step, as a flag
    #[arg(long = "step", value_name = "STEP", conflicts_with = "step")]
    step_flag: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    target: Target,
    /// Which of the step's operations; default: the one not settled, else the dead one
    #[arg(long, value_enum)]
    operation: Option<Operation>,
    /// Even if it may be done twice, or its key may be forgotten
    #[arg(long)]
    force: bool,
    /// Under a new key; only after it was rejected or sealed
    #[arg(long)]
    new_key: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    #[command(flatten)]
    target: Target,
    /// Which of the step's operations; default: the one not settled, else the dead one
    #[arg(long, value_enum)]
    operation: Option<Operation>,
    /// What became of it
    #[arg(long, value_enum)]
    outcome: Outcome,
    /// What the participant answered, as JSON; with `done`
    #[arg(long, value_name = "JSON")]
    fact: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Skip {
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Close {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Operation {
    Action,
    Compensation,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Outcome {
    /// It was executed
    Done,
    /// It was not executed and never will be
    #[value(name = "not_done", alias = "not-done")]
    NotDone,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Compensation => "compensation",
        }
    }
}

/// Cancels. Repeating it is harmless: a saga that is being undone answers the same again.
pub(crate) async fn cancel(act: Cancel, api: &Api, output: Output) -> Result<Exit, Failure> {
    let mut body = json!({});
    if let Some(reason) = act.reason {
        body["reason"] = reason.into();
    }
    post(api, &act.id, "cancel", &body, None, output).await
}

/// Retries an operation.
pub(crate) async fn retry(act: Retry, api: &Api, output: Output) -> Result<Exit, Failure> {
    let mut body = json!({});
    set_operation(&mut body, act.operation);
    for (name, given) in [("force", act.force), ("new_key", act.new_key)] {
        if given {
            body[name] = true.into();
        }
    }
    step_action(act.target, "retry", "will be tried again", body, api, output).await
}

/// Settles an operation on a person's word.
pub(crate) async fn resolve(act: Resolve, api: &Api, output: Output) -> Result<Exit, Failure> {
    let mut body = json!({});
    set_operation(&mut body, act.operation);
    let what = match (act.outcome, act.fact) {
        (Outcome::Done, fact) => {
            body["outcome"] = "done".into();
            if let Some(fact) = fact {
                body["fact"] = input::json(&fact, "--fact")?;
            }
            "will count as done"
        }
        (Outcome::NotDone, None) => {
            body["outcome"] = "not_done".into();
            "will count as never done"
        }
        (Outcome::NotDone, Some(_)) => {
            return Err(Failure::usage(
                "what was not done has no fact",
                "leave --fact out, or say --outcome done",
            ));
        }
    };
    step_action(act.target, "resolve", what, body, api, output).await
}

/// Leaves a step out.
pub(crate) async fn skip(act: Skip, api: &Api, output: Output) -> Result<Exit, Failure> {
    step_action(act.target, "skip", "will be left out", json!({}), api, output).await
}

/// Ends a saga as it is.
pub(crate) async fn close(act: Close, api: &Api, output: Output) -> Result<Exit, Failure> {
    let common = act.common;
    let version = match common.version {
        Some(version) => version,
        None => {
            let current = saga::fetch(api, &common.id).await?;
            confirm(&current, "will be closed as it is; its claims are released", &common)?
        }
    };
    post(api, &common.id, "close", &json!({ "reason": common.reason }), Some(version), output).await
}

fn set_operation(body: &mut Value, operation: Option<Operation>) {
    if let Some(operation) = operation {
        body["operation"] = operation.word().into();
    }
}

async fn step_action(
    target: Target,
    action: &str,
    what: &str,
    mut body: Value,
    api: &Api,
    output: Output,
) -> Result<Exit, Failure> {
    let common = target.common;
    let given = target.step.or(target.step_flag);
    let (step, version) = match (given, common.version) {
        (Some(step), Some(version)) => (step, version),
        (given, version) => {
            let current = saga::fetch(api, &common.id).await?;
            let step = given.map_or_else(|| troubled_step(&current), Ok)?;
            let version =
                version.map_or_else(|| confirm(&current, &format!("{step} {what}"), &common), Ok)?;
            (step, version)
        }
    };
    body["reason"] = common.reason.into();
    body["step"] = step.into();
    post(api, &common.id, action, &body, Some(version), output).await
}

/// The step that is meant when none is named: the only one in trouble.
fn troubled_step(saga: &Value) -> Result<String, Failure> {
    let names = |words: &[&str]| -> Vec<String> {
        let steps = saga["steps"].as_array().into_iter().flatten();
        let meant =
            steps.filter(|step| step["status"].as_str().is_some_and(|status| words.contains(&status)));
        meant.map(|step| saga_view::text(&step["name"])).collect()
    };
    let mut troubled = names(&["unknown", "dead"]);
    if troubled.is_empty() {
        troubled = names(&["waiting"]);
    }
    match troubled.as_slice() {
        [step] => Ok(step.clone()),
        [] => Err(Failure::usage("no step of this saga needs a person", "name the step after the id")),
        several => Err(Failure::usage(
            format!("several steps need a person: {}", several.join(", ")),
            "name one of them after the id",
        )),
    }
}

/// Says what is going to be done to what was seen, and gives the version that must still be the current one. On a terminal a
/// person confirms; a script has said what it wants by its command line.
fn confirm(saga: &Value, what: &str, common: &Common) -> Result<u64, Failure> {
    let version = saga["version"].as_u64().ok_or_else(|| {
        Failure::failed(
            "the server shows no version of this saga",
            "check that client and server are of one version",
        )
    })?;
    say(&format!(
        "{} is {} at version {version}{}",
        saga_view::text(&saga["id"]),
        saga_view::text(&saga["status"]),
        saga["reason"].as_str().map_or(String::new(), |reason| format!(": {}", crate::table::tame(reason))),
    ));
    say(&format!("{what}, because: {}", common.reason));
    if common.yes || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(version);
    }
    say("do it? [y/N]");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(version)
    } else {
        Err(Failure::failed("nothing was done", "answer y, or give --yes"))
    }
}

async fn post(
    api: &Api,
    id: &str,
    action: &str,
    body: &Value,
    version: Option<u64>,
    output: Output,
) -> Result<Exit, Failure> {
    let path = format!("{}/{action}", saga::path(id));
    let answer = api.send(Method::POST, &path, Some(Payload::json(body)), version, Duration::ZERO).await?;
    output.one(&answer.body, || saga_view::whole(&answer.body))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saga(steps: &[(&str, &str)]) -> Value {
        let steps: Vec<Value> = steps.iter().map(|(n, s)| json!({"name": n, "status": s})).collect();
        json!({ "steps": steps })
    }

    #[test]
    fn step_in_trouble_is_found_if_there_is_one() {
        assert_eq!(troubled_step(&saga(&[("a", "done"), ("b", "dead"), ("c", "waiting")])).unwrap(), "b");
        assert_eq!(troubled_step(&saga(&[("a", "done"), ("c", "waiting")])).unwrap(), "c");
        assert!(
            troubled_step(&saga(&[("a", "dead"), ("b", "unknown")])).unwrap_err().message.contains("a, b")
        );
        assert_eq!(troubled_step(&saga(&[("a", "done")])).unwrap_err().exit, Exit::Usage);
    }
}
