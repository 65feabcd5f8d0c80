//! `amends dead-letter …`: sagas that machines may no longer drive.

use clap::Subcommand;
use serde_json::Value;

use crate::client::{Api, query};
use crate::commands::saga_view::{rows, text};
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};
use crate::table::Table;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Count them by definition, step, operation and kind of error
    List,
    /// Show those of a group, one a line
    Show {
        /// Only of this definition
        #[arg(long, value_name = "NAME")]
        saga: Option<String>,
        /// Only those that died at this step
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
        /// How many
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Where to go on: the `next` of the page before
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
}

/// Runs one of the commands.
pub(crate) async fn run(command: Command, api: &Api, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::List => {
            let groups = api.get("/v1/dead-letters").await?.body;
            output.list(&groups, group_rows)?;
            if !output.is_for_programs() && groups["items"].as_array().is_some_and(|items| !items.is_empty())
            {
                say("`amends dead-letter show --saga NAME --step STEP` names them");
            }
        }
        Command::Show { saga, step, limit, cursor } => {
            let limit = limit.map(|n| n.to_string());
            let status = Some("dead".to_owned());
            let parameters = query(&[
                ("status", status),
                ("saga", saga),
                ("step", step),
                ("limit", limit),
                ("cursor", cursor),
            ]);
            let page = api.get(&format!("/v1/sagas{parameters}")).await?.body;
            output.list(&page, rows)?;
            if let (false, Some(next)) = (output.is_for_programs(), page["next"].as_str()) {
                say(&format!("there are more: repeat with --cursor {next}"));
            }
        }
    }
    Ok(Exit::Done)
}

fn group_rows(groups: &[Value]) -> Table {
    let mut table = Table::new(&["SAGA", "STEP", "OPERATION", "ERROR", "COUNT", "OLDEST", "NEWEST"]);
    for group in groups {
        table.row(
            ["saga", "step", "operation", "error_class", "count", "oldest", "newest"]
                .map(|name| text(&group[name])),
        );
    }
    table
}
