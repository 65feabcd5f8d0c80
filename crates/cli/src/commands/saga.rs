//! `amends saga …`: start and look at sagas.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::args::{duration, saga_id};
use crate::client::{Api, Payload, encode, query};
use crate::commands::{saga_act, saga_view, saga_watch};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Output, say};

/// The longest wait asked of the server in one request; longer ones are several requests, so that a proxy in between
/// does not cut them.
const WAIT_ONCE_MAX: Duration = Duration::from_secs(20);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a saga; the same id with the same input again is the same saga
    Start(Start),
    /// List sagas, newest first
    List(List),
    /// Show a saga and its steps
    Show {
        /// Its id
        #[arg(value_parser = saga_id)]
        id: String,
    },
    /// Print what happens to a saga until it ends or needs a person
    Watch(saga_watch::Watch),
    /// Print everything that happened to a saga
    Journal {
        /// Its id
        #[arg(value_parser = saga_id)]
        id: String,
    },
    /// Undo it, if it has not passed its point of no return
    Cancel(saga_act::Cancel),
    /// Try an operation again now, with a new budget, under the same key
    Retry(saga_act::Retry),
    /// Say what became of an operation
    Resolve(saga_act::Resolve),
    /// Leave a step out
    Skip(saga_act::Skip),
    /// End it as it is and release its claims
    Close(saga_act::Close),
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// The definition
    name: String,
    /// The business id: names one operation, for ever
    #[arg(value_parser = saga_id)]
    id: String,
    #[command(flatten)]
    input: Input,
    /// Wait this long for the end (e.g. 5s); the exit code tells how it ended
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// The definition's version; default: the highest
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// The input, as JSON
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// A file with the input, as JSON; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    input_file: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only these statuses (running, compensating, unknown, dead, completed, compensated, resolved)
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<String>,
    /// Only sagas of this definition
    #[arg(long, value_name = "NAME")]
    saga: Option<String>,
    /// Only sagas whose trouble is at this step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Only sagas submitted longer ago than this (e.g. 1h)
    #[arg(long, value_name = "TIME")]
    older_than: Option<String>,
    /// Only ids that contain this
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    /// How many
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Where to go on: the `next` of the page before
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Runs one of the commands.
pub(crate) async fn run(command: Command, api: &Api, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Start(start) => begin(start, api, output).await,
        Command::List(list) => page(list, api, output).await,
        Command::Show { id } => {
            let saga = fetch(api, &id).await?;
            output.one(&saga, || saga_view::whole(&saga))?;
            Ok(Exit::Done)
        }
        Command::Watch(watch) => saga_watch::run(watch, api, output).await,
        Command::Journal { id } => {
            let items = saga_watch::journal(api, &id).await?;
            output.list(&json!({ "items": items, "next": null }), saga_view::journal)?;
            Ok(Exit::Done)
        }
        Command::Cancel(act) => saga_act::cancel(act, api, output).await,
        Command::Retry(act) => saga_act::retry(act, api, output).await,
        Command::Resolve(act) => saga_act::resolve(act, api, output).await,
        Command::Skip(act) => saga_act::skip(act, api, output).await,
        Command::Close(act) => saga_act::close(act, api, output).await,
    }
}

/// The path of a saga.
pub(crate) fn path(id: &str) -> String {
    format!("/v1/sagas/{}", encode(id))
}

/// A saga, as the API shows it now.
pub(crate) async fn fetch(api: &Api, id: &str) -> Result<Value, Failure> {
    Ok(api.get(&path(id)).await?.body)
}

/// The exit code of a saga that was waited for, or `None` while it goes on by itself.
pub(crate) fn verdict(saga: &Value) -> Option<Exit> {
    match saga["status"].as_str()? {
        "completed" => Some(Exit::Done),
        "compensated" => Some(Exit::Compensated),
        // A person closed it: what was left is for people.
        "resolved" => Some(Exit::Partial),
        "unknown" | "dead" => Some(Exit::NeedsPerson),
        _ => None,
    }
}

async fn begin(start: Start, api: &Api, output: Output) -> Result<Exit, Failure> {
    let input = match (&start.input.input, &start.input.input_file) {
        (Some(text), _) => input::json(text, "--input")?,
        (None, file) => {
            let name = file.as_deref().unwrap_or("-");
            input::json(&input::read(name)?, &input::name(name))?
        }
    };
    let mut body = json!({ "saga": start.name, "id": start.id, "input": input });
    if let Some(version) = start.version {
        body["version"] = version.into();
    }
    let body = Payload::json(&body);
    let began = Instant::now();
    loop {
        let left = start.wait.map(|wait| wait.saturating_sub(began.elapsed()).min(WAIT_ONCE_MAX));
        let path =
            format!("/v1/sagas{}", query(&[("wait", left.map(|wait| format!("{}ms", wait.as_millis())))]));
        // Repeating the submission is harmless: the same id and input are the same saga.
        let answer =
            api.send(Method::POST, &path, Some(body.clone()), None, left.unwrap_or_default()).await?;
        let verdict = verdict(&answer.body);
        let exit = match start.wait {
            None => Exit::Done,
            Some(wait) => match verdict {
                Some(exit) => exit,
                None if began.elapsed() < wait => continue,
                None => Exit::TimeOver,
            },
        };
        output.one(&answer.body, || saga_view::whole(&answer.body))?;
        if exit != Exit::Done {
            say(&advice(exit, &start.id));
        }
        return Ok(exit);
    }
}

/// What to do about a saga that did not simply complete.
pub(crate) fn advice(exit: Exit, id: &str) -> String {
    match exit {
        Exit::Compensated => format!("it was undone; `amends saga journal {id}` tells why"),
        Exit::NeedsPerson => {
            format!(
                "it needs a person: `amends saga journal {id}` tells why, then `amends saga retry|resolve|skip|close {id}`"
            )
        }
        Exit::TimeOver => format!("it goes on: `amends saga watch {id}`"),
        Exit::Partial => format!("a person closed it; `amends saga journal {id}` lists what was left"),
        Exit::Done | Exit::Failed | Exit::Usage | Exit::NotFound | Exit::Conflict | Exit::Denied => {
            format!("`amends saga show {id}` shows it")
        }
    }
}

async fn page(list: List, api: &Api, output: Output) -> Result<Exit, Failure> {
    let parameters = query(&[
        ("status", (!list.status.is_empty()).then(|| list.status.join(","))),
        ("saga", list.saga),
        ("step", list.step),
        ("older_than", list.older_than),
        ("q", list.q),
        ("limit", list.limit.map(|limit| limit.to_string())),
        ("cursor", list.cursor),
    ]);
    let page = api.get(&format!("/v1/sagas{parameters}")).await?.body;
    output.list(&page, saga_view::rows)?;
    if let (false, Some(next)) = (output.is_for_programs(), page["next"].as_str()) {
        say(&format!("there are more: repeat with --cursor {next}"));
    }
    Ok(Exit::Done)
}
