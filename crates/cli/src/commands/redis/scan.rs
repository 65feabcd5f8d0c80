//! `amends redis scan`, and the same beside an engine.

use std::time::Duration;

use amends_redis::{Error, Log, Options as ClientOptions, Report, ScanOptions, Scanner};
use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::failure;
use crate::args::duration;
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Look once and end: 0 if all is well, 7 if something failed, 9 if a record now needs a person
    #[arg(long)]
    once: bool,
    /// How often it looks for what is due
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    interval: Duration,
    /// How old a record of another program must be to be undone
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    threshold: Duration,
    /// How often it goes through all keys for records of other programs
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    sweep_interval: Duration,
    /// How long settled records are kept
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = duration)]
    retention: Duration,
    /// How many records a pass handles at most
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    batch: usize,
}

/// Scans once, or until SIGTERM or SIGINT.
pub(crate) async fn run(options: Options, url: String, output: Output) -> Result<Exit, Failure> {
    let log = Log::connect(&url, ClientOptions::default()).await.map_err(|e| failure(&e))?;
    let scanner = Scanner::new(
        log,
        ScanOptions {
            interval: options.interval,
            threshold: options.threshold,
            sweep_interval: options.sweep_interval,
            retention: options.retention,
            batch_max: options.batch.max(1),
            wake_url: Some(url),
            ..ScanOptions::default()
        },
    );
    if options.once {
        let report = scanner.run_once().await.map_err(|e| failure(&e))?;
        show(&report, output)?;
        return Ok(exit(&report));
    }
    let broken = |e: std::io::Error| {
        Failure::failed(format!("signals cannot be handled: {e}"), "check the system's limits")
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    say("scanning; SIGTERM or Ctrl-C ends it, which loses nothing");
    // A reader that has gone away does not end the scanner.
    scanner.run(stop, |report| drop(show(report, output))).await;
    Ok(Exit::Done)
}

/// Scans beside an engine for as long as the process lives. A server that cannot be reached is tried again after the interval: the
/// engine does not depend on it.
pub(crate) async fn beside_engine(url: String, interval: Duration) {
    let log = loop {
        match Log::connect(&url, ClientOptions::default()).await {
            Ok(log) => break log,
            Err(e) => tracing::warn!("[redis] the compensation log is not scanned: {e}; it is tried again"),
        }
        tokio::time::sleep(interval).await;
    };
    let options = ScanOptions { interval, wake_url: Some(url), ..ScanOptions::default() };
    let heard = |report: &Report| tracing::info!("compensation log: {}", words(report));
    Scanner::new(log, options).run(std::future::pending(), heard).await;
}

fn exit(report: &Report) -> Exit {
    match (report.parked.is_empty(), report.failures.is_empty()) {
        (false, _) => Exit::NeedsPerson,
        (true, false) => Exit::Partial,
        (true, true) => Exit::Done,
    }
}

fn show(report: &Report, output: Output) -> Result<(), Failure> {
    output.one(&report_json(report), || words(report) + "\n")?;
    for parked in &report.parked {
        say(&format!("{} needs a person: {}", parked.id, parked.reason));
    }
    for failure in &report.failures {
        say(&format!("{}: {}", failure.what, failure.error));
    }
    Ok(())
}

fn words(report: &Report) -> String {
    let Report { compensated, settled_by_others, postponed, adopted, removed, parked, failures, .. } = report;
    format!(
        "{compensated} compensated, {settled_by_others} found settled, {postponed} postponed, {adopted} adopted, {removed} removed, \
         {} parked, {} failed",
        parked.len(),
        failures.len()
    )
}

fn report_json(report: &Report) -> Value {
    let said = |error: &Error| error.to_string();
    json!({
        "compensated": report.compensated,
        "settled_by_others": report.settled_by_others,
        "postponed": report.postponed,
        "adopted": report.adopted,
        "removed": report.removed,
        "parked": report.parked.iter().map(|p| json!({ "id": p.id.to_string(), "reason": p.reason })).collect::<Vec<_>>(),
        "failures": report.failures.iter().map(|f| json!({ "what": f.what, "error": said(&f.error) })).collect::<Vec<_>>(),
        "left": report.left,
        "next_due_ms": report.next_due.and_then(|next| u64::try_from(next.as_millis()).ok()),
    })
}
