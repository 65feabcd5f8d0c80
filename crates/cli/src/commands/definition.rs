//! `amends definition …`: register and read definitions.

use std::time::Duration;

use clap::Subcommand;
use http::{Method, StatusCode};
use serde_json::Value;

use crate::client::{Api, Payload, encode, query};
use crate::commands::saga_view::text;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Output, say};
use crate::table::Table;
use crate::{problem, toml_error};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register a definition; the same content again changes nothing
    Apply {
        /// TOML, or JSON if its name ends in .json; `-` reads TOML from standard input
        file: String,
    },
    /// List what is registered
    List {
        /// How many
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Where to go on: the `next` of the page before
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show a definition
    Show {
        /// Its name
        name: String,
        /// Its version; default: the highest
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
}

/// Runs one of the commands.
pub(crate) async fn run(command: Command, api: &Api, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Apply { file } => apply(&file, api, output).await,
        Command::List { limit, cursor } => {
            let parameters = query(&[("limit", limit.map(|n| n.to_string())), ("cursor", cursor)]);
            let page = api.get(&format!("/v1/definitions{parameters}")).await?.body;
            output.list(&page, rows)?;
            if let (false, Some(next)) = (output.is_for_programs(), page["next"].as_str()) {
                say(&format!("there are more: repeat with --cursor {next}"));
            }
            Ok(Exit::Done)
        }
        Command::Show { name, version } => {
            let parameters = query(&[("version", version.map(|n| n.to_string()))]);
            let found = api.get(&format!("/v1/definitions/{}{parameters}", encode(&name))).await?.body;
            output.one(&found, || format!("{found:#}\n"))?;
            Ok(Exit::Done)
        }
    }
}

async fn apply(file: &str, api: &Api, output: Output) -> Result<Exit, Failure> {
    let given = input::read(file)?;
    let (name, payload) = if is_json(file) {
        let tree = input::json(&given, file)?;
        (saga_name(tree["saga"].as_str(), file)?, Payload::json(&tree))
    } else {
        // Only the name is read here: the server reads the rest, and names every problem at once.
        let tree: Result<toml::Table, _> = toml::from_str(&given);
        let tree = tree.map_err(|e| {
            let (place, reason, _) = toml_error::explain(&e, &given);
            let message = format!("{}: {place}{reason}", input::name(file));
            Failure::failed(message, "correct the line named, then apply it again")
        })?;
        (saga_name(tree.get("saga").and_then(toml::Value::as_str), file)?, Payload::toml(given))
    };
    let path = format!("/v1/definitions/{}", encode(&name));
    let answer = api.send(Method::PUT, &path, Some(payload), None, Duration::ZERO).await?;
    for warning in answer.body["warnings"].as_array().into_iter().flatten() {
        say(&format!("warning: {}", problem::diagnostic(warning)));
    }
    output.one(&answer.body, || {
        let what = if answer.status == StatusCode::CREATED { "registered" } else { "was registered before" };
        format!("{name} version {} {what}\n", text(&answer.body["version"]))
    })?;
    Ok(Exit::Done)
}

/// Whether a file's name says that it is JSON.
pub(crate) fn is_json(file: &str) -> bool {
    std::path::Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn saga_name(name: Option<&str>, file: &str) -> Result<String, Failure> {
    name.map(str::to_owned).ok_or_else(|| {
        Failure::failed(
            format!("{} does not say which saga it defines", input::name(file)),
            "begin it with a line such as: saga = \"order-fulfilment\"",
        )
    })
}

fn rows(definitions: &[Value]) -> Table {
    let mut table = Table::new(&["NAME", "VERSION", "DIGEST", "REGISTERED"]);
    for definition in definitions {
        let name = if definition["name"].is_string() { &definition["name"] } else { &definition["saga"] };
        let digest: String = text(&definition["digest"]).chars().take(12).collect();
        table.row([text(name), text(&definition["version"]), digest, text(&definition["created_at"])]);
    }
    table
}
