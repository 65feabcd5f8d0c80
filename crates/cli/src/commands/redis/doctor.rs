//! `amends redis doctor`, and `amends redis install`.

use amends_redis::doctor::{Durability, Finding, Severity, check, functions};
use amends_redis::{Client, LIBRARIES, Options as ClientOptions};
use clap::Args;
use serde_json::{Value, json};

use super::failure;
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};
use crate::table::Table;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What it holds may be lost with it: a server without an append-only file is good enough
    #[arg(long)]
    volatile: bool,
}

/// Looks at every primary's settings and functions, and changes nothing. Exit code 1 if one of them would lose records.
pub(crate) async fn run(options: &Options, url: &str, output: Output) -> Result<Exit, Failure> {
    let client = Client::connect(url, &[], ClientOptions::default()).await.map_err(|e| failure(&e))?;
    let durability = if options.volatile { Durability::Volatile } else { Durability::Kept };
    let mut findings = check(&client, durability).await.map_err(|e| failure(&e))?;
    findings.extend(functions(&client, LIBRARIES).await.map_err(|e| failure(&e))?);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    show(&findings, output)?;
    let refused = findings.iter().filter(|f| f.severity == Severity::Refuse).count();
    if refused > 0 {
        say(&format!(
            "{refused} of these would lose what was acknowledged: amends does not start on this server"
        ));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

/// Loads all functions on every primary; what is there already stays.
pub(crate) async fn install(url: &str, output: Output) -> Result<Exit, Failure> {
    let client = Client::connect(url, LIBRARIES, ClientOptions::default()).await.map_err(|e| failure(&e))?;
    if client.sends_scripts() {
        say("this user may not load functions here: their code is sent with each call, which works as well");
        say("next: let somebody who may load them run this, or go on without");
    }
    show(&functions(&client, LIBRARIES).await.map_err(|e| failure(&e))?, output)?;
    Ok(Exit::Done)
}

fn show(findings: &[Finding], output: Output) -> Result<(), Failure> {
    let items: Vec<Value> = findings.iter().map(value).collect();
    output.list(&json!({ "items": items, "next": null }), |_| {
        let mut table = Table::new(&["SERVER", "CHECK", "RESULT", "DETAIL", "NEXT"]);
        for finding in findings {
            let Finding { severity, server, what, detail, fix } = finding;
            table.row([server.as_str(), what, word(*severity), detail, fix]);
        }
        table.without_empty_columns()
    })
}

fn value(finding: &Finding) -> Value {
    let Finding { severity, server, what, detail, fix } = finding;
    json!({ "server": server, "check": what, "result": word(*severity), "detail": detail, "next": fix })
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fine => "ok",
        Severity::Warn => "risk",
        Severity::Refuse => "problem",
    }
}
