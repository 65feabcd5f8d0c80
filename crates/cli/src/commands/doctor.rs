//! `amends doctor`: looks at configuration, store and server, and says of each what is wrong and what to do.

use std::path::Path;

use amends_core::Time;
use amends_store::Backlog;
use serde_json::{Value, json};

use crate::args::Doctor;
use crate::client::Api;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};
use crate::stores::StoreUrl;
use crate::table::Table;

/// What was found about one thing.
#[derive(Debug)]
struct Finding {
    what: &'static str,
    result: Verdict,
    detail: String,
    next: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Ok,
    /// Nothing is wrong, but it is good to know.
    Note,
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// Looks at everything; exit code 1 if there is a problem. It changes nothing, but for bringing a store of an earlier version up to
/// date, as `serve` would.
pub(crate) async fn run(doctor: &Doctor, server: &str, output: Output) -> Result<Exit, Failure> {
    if doctor.accept_loss {
        return accept_loss(doctor).await;
    }
    let mut findings = Vec::new();
    let config = match Config::load(doctor.config.as_deref()) {
        Ok((config, file)) => {
            let detail = file
                .map_or("there is no amends.toml: defaults".to_owned(), |file| file.display().to_string());
            findings.push(ok("configuration", detail));
            Some(config)
        }
        Err(failure) => {
            findings.push(problem("configuration", &failure));
            None
        }
    };
    if let Some(config) = &config {
        findings.push(listening(config));
        findings.extend(participants(config));
    }
    let (server, runs) = look_at_server(server).await;
    findings.extend(server);
    let of_config = config.map(|config| config.store).unwrap_or_default();
    let url = doctor.store.clone().unwrap_or(of_config.url);
    findings.extend(look_at_store(&url, &of_config.data, runs).await);

    let items: Vec<Value> = findings.iter().map(value).collect();
    output.list(&json!({ "items": items, "next": null }), |_| table(&findings))?;
    let is_sick = findings.iter().any(|finding| finding.result == Verdict::Problem);
    Ok(if is_sick { Exit::Failed } else { Exit::Done })
}

/// Says that what a store has lost is lost, so that engines go on with what it has.
async fn accept_loss(doctor: &Doctor) -> Result<Exit, Failure> {
    let (config, _) = Config::load(doctor.config.as_deref())?;
    let url = doctor.store.as_deref().unwrap_or(&config.store.url);
    let reason = doctor.reason.as_deref().unwrap_or_default();
    let epoch = StoreUrl::parse(url)?.accept_loss(&config.store.data, reason).await?;
    say(&format!(
        "accepted: the store goes on in epoch {epoch}, and every operation of an open saga counts as possibly sent. Callers should submit \
         again what they are not sure of (the same ids are safe), and statements of the providers tell what was done for sagas that are gone"
    ));
    Ok(Exit::Done)
}

fn listening(config: &Config) -> Finding {
    match amends_server::Settings::new(&config.server, &|name| std::env::var(name).ok()) {
        Ok(_) if config.server.tokens.is_empty() => {
            ok("access", format!("everybody on this machine may do everything at {}", config.server.listen))
        }
        Ok(_) => ok("access", format!("{} token(s) at {}", config.server.tokens.len(), config.server.listen)),
        Err(why) => problem("access", &Failure::usage(why, "correct [server]")),
    }
}

/// Whether each participant can be called as it is configured: variables and files are there.
fn participants(config: &Config) -> Vec<Finding> {
    let made = crate::participants::open(config.participants.clone(), None);
    let states = match made {
        Ok(participants) => participants.states(),
        Err(problems) => {
            let failure =
                |problem: &amends_participants::Problem| Failure::usage(problem.to_string(), "correct it");
            return problems.iter().map(|found| problem("participant", &failure(found))).collect();
        }
    };
    if states.is_empty() {
        let detail = "none is configured".to_owned();
        return vec![note(
            "participant",
            detail,
            "add [participants.NAME] url = \"http://…\" to amends.toml",
        )];
    }
    let each = states.into_iter().map(|state| match state.fault {
        None => ok("participant", format!("{} can be called as configured", state.name)),
        Some(fault) => {
            let message = format!("{}: {fault}", state.name);
            problem(
                "participant",
                &Failure::failed(message, "set the variable or put the file there; calls wait for it"),
            )
        }
    });
    each.collect()
}

/// What the server says of itself, and whether there is one.
async fn look_at_server(url: &str) -> (Vec<Finding>, bool) {
    let looked = match Api::new(url) {
        Ok(api) => api.look("/readyz").await,
        Err(failure) => return (vec![problem("server", &failure)], false),
    };
    match looked {
        Err(failure) => (vec![note("server", failure.message, "`amends serve` starts it")], false),
        Ok(answer) if answer.body["ready"] == true => {
            (vec![ok("server", format!("{url} takes sagas"))], true)
        }
        Ok(answer) => {
            let reasons = answer.body["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let reasons = reasons.collect::<Vec<_>>().join("; ");
            let message = format!("{url} is not ready ({}): {reasons}", answer.status);
            (vec![problem("server", &Failure::failed(message, "see the server's log"))], true)
        }
    }
}

async fn look_at_store(url: &str, data: &Path, server_runs: bool) -> Vec<Finding> {
    let store = match StoreUrl::parse(url) {
        Ok(StoreUrl::Sqlite(path)) if !path.exists() => {
            return vec![note(
                "store",
                format!("{} is not there yet", shown(&path)),
                "`amends serve` makes it",
            )];
        }
        Ok(store) => store,
        Err(failure) => return vec![problem("store", &failure)],
    };
    // A folder that is not there yet says nothing, and looking makes none.
    let opened = match store.open(Some(data).filter(|data| data.is_dir())).await {
        Ok(opened) => opened,
        // The one that has it open is most likely the server, which has just been asked.
        Err(failure) if server_runs => {
            return vec![note("store", failure.message, "the running server looks after it")];
        }
        Err(failure) => return vec![problem("store", &failure)],
    };
    let now = Time(jiff::Timestamp::now().as_millisecond());
    let counts = match opened.stats(now).await {
        Ok(stats) => {
            let open: u64 = stats.open.iter().map(|(_, _, count)| count).sum();
            let ended: u64 = stats.ended.iter().map(|(_, count)| count).sum();
            ok("store", format!("it opens and can be read: {open} sagas under way, {ended} ended"))
        }
        Err(e) => unreadable(e),
    };
    let mut findings = vec![counts];
    if let Some(intake) = opened.intake() {
        findings.push(intake.backlog().await.map_or_else(unreadable, |backlog| submissions(&backlog)));
    }
    findings
}

/// What callers' SQL transactions have left and is no saga.
fn submissions(backlog: &Backlog) -> Finding {
    let Backlog { waiting, put_off, refused, example } = backlog;
    let counts = format!(
        "{waiting} of callers' SQL transactions wait, {put_off} of them were put off, {refused} are refused"
    );
    let detail = match example {
        Some((id, reason)) => format!("{counts}; {id}: {reason}"),
        None => counts,
    };
    if *refused > 0 {
        let next = "compare it with the saga of its id, and delete its row when it is settled: docs/local-transactions.md";
        problem("submissions", &Failure::failed(detail, next))
    } else if *put_off > 0 {
        note("submissions", detail, "they are tried again by themselves")
    } else {
        ok("submissions", detail)
    }
}

fn unreadable(error: amends_store::Error) -> Finding {
    let next = "keep a copy of the files before anything else is tried";
    problem("store", &Failure::failed(error.message, next))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn ok(what: &'static str, detail: String) -> Finding {
    Finding { what, result: Verdict::Ok, detail, next: String::new() }
}

fn note(what: &'static str, detail: String, next: &str) -> Finding {
    Finding { what, result: Verdict::Note, detail, next: next.to_owned() }
}

fn problem(what: &'static str, failure: &Failure) -> Finding {
    Finding { what, result: Verdict::Problem, detail: failure.message.clone(), next: failure.next.clone() }
}

fn value(finding: &Finding) -> Value {
    let Finding { what, result, detail, next } = finding;
    json!({ "check": what, "result": result.word(), "detail": detail, "next": next })
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(&["CHECK", "RESULT", "DETAIL", "NEXT"]);
    for finding in findings {
        table.row([finding.what, finding.result.word(), &finding.detail, &finding.next]);
    }
    table.without_empty_columns()
}
