//! Tortures the binary `amends` on a real store. `cargo xtask torture` builds both and starts this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks on its standard streams")]

use std::process::ExitCode;

use amends_torture::faults::{self, Fault};
use amends_torture::kills::Run;
use amends_torture::store::StoreUrl;
use amends_torture::waiting;
use anyhow::Result;
use clap::Parser;

/// Kills the engine again and again while orders come in and everything fails, then compares every ledger with every saga.
#[derive(Debug, Parser)]
#[command(name = "amends-torture", max_term_width = 110)]
struct Options {
    /// How often the engine is killed; 0: not at all
    #[arg(long, value_name = "N", default_value_t = 100)]
    kills: u32,
    /// How often it is stopped until its lease has lapsed; each takes more than a quarter of a minute
    #[arg(long, value_name = "N", default_value_t = 1)]
    lapses: u32,
    /// The store: sqlite: (a fresh file), sqlite:// and a path, redis: (fresh servers, tortured as well), or redis:// and an address
    #[arg(long, value_name = "URL", default_value = "sqlite:")]
    store: String,
    /// What orders, faults and moments are drawn from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Run the named faults too, or only those whose name contains this
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    faults: Option<String>,
    /// List the named faults and what they show, and those that wait for a store or a participant; run nothing
    #[arg(long)]
    list: bool,
    /// Print the report as one line of JSON, last
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.list {
        print!("{}{}", faults::table(), waiting::table());
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torture: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    let store = StoreUrl::parse(&options.store)?;
    let mut good = true;
    if let Some(part) = &options.faults {
        let redis = if store.servers().is_some() { faults::REDIS } else { &[] };
        for fault in faults::ALL.iter().chain(redis).filter(|fault| fault.name.contains(part.as_str())) {
            good &= show(fault, &store);
        }
    }
    if options.kills > 0 || options.lapses > 0 {
        let run = Run {
            store,
            kills: options.kills,
            lapses: options.lapses,
            seed: options.seed,
            lie: None,
            progress: |line| eprintln!("{line}"),
        };
        let report = faults::runtime()?.block_on(run.run())?;
        good &= report.is_good();
        eprint!("{}\n{}", waiting::table(), report.words());
        if options.json {
            println!("{}", serde_json::to_string(&report)?);
        }
    }
    Ok(good)
}

fn show(fault: &Fault, store: &StoreUrl) -> bool {
    match fault.run(store) {
        Ok(()) => {
            eprintln!("ok      {}: {}", fault.name, fault.expected);
            true
        }
        Err(error) => {
            eprintln!("FAILED  {}: {error:#}", fault.name);
            false
        }
    }
}
