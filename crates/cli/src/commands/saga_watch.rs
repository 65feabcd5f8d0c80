//! `amends saga watch`: what happens to a saga, as it happens.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::args::{duration, saga_id};
use crate::client::{Api, encode, query};
use crate::commands::{saga, saga_view};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, say};

/// How often the saga is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(400);

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Its id
    #[arg(value_parser = saga_id)]
    id: String,
    /// Give up after this time (exit code 5); default: never
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
}

/// Prints entries until the saga ends or needs a person.
pub(crate) async fn run(watch: Watch, api: &Api, output: Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    let mut seen = 0;
    let mut away = false;
    let mut version = None;
    let exit = loop {
        match saga::fetch(api, &watch.id).await {
            Ok(saga) => {
                if away {
                    say("the server is back");
                    away = false;
                }
                if version.as_ref() != Some(&saga["version"]) {
                    seen = follow(api, &watch.id, seen, output).await?;
                    version = Some(saga["version"].clone());
                }
                if let Some(exit) = saga::verdict(&saga) {
                    finish(&saga, output)?;
                    break exit;
                }
            }
            // A server that restarts is no reason to stop watching what it will go on with.
            Err(failure) if failure.exit == Exit::Failed && version.is_some() => {
                if !away {
                    say(&format!("{}; waiting for it", failure.message));
                    away = true;
                }
            }
            Err(failure) => return Err(failure),
        }
        if watch.wait.is_some_and(|wait| began.elapsed() >= wait) {
            break Exit::TimeOver;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    if exit != Exit::Done {
        say(&saga::advice(exit, &watch.id));
    }
    Ok(exit)
}

/// The whole journal of a saga, page by page.
pub(crate) async fn journal(api: &Api, id: &str) -> Result<Vec<Value>, Failure> {
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let path = format!("/v1/sagas/{}/journal{}", encode(id), query(&[("cursor", cursor)]));
        let page = api.get(&path).await?.body;
        items.extend(page["items"].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(items),
        }
    }
}

/// Prints the entries after `seen`; gives the last one's number.
async fn follow(api: &Api, id: &str, seen: u64, output: Output) -> Result<u64, Failure> {
    let mut last = seen;
    for entry in journal(api, id).await? {
        let seq = entry["seq"].as_u64().unwrap_or(0);
        if seq <= seen {
            continue;
        }
        last = last.max(seq);
        if output.streams() {
            let line =
                if output.is_for_programs() { format!("{entry}\n") } else { saga_view::journal_line(&entry) };
            print(&line)?;
        }
    }
    Ok(last)
}

/// Ends the output: with the saga itself, where entries were not streamed or a person reads.
fn finish(saga: &Value, output: Output) -> Result<(), Failure> {
    match (output.streams(), output.is_for_programs()) {
        (true, true) => Ok(()),
        (true, false) => print(&format!("\n{}", saga_view::whole(saga))),
        (false, _) => output.one(&json!(saga), String::new),
    }
}
