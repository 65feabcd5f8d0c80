//! Tortures the binary `amends` on a real store. `cargo xtask torture` builds both and starts this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks on its standard streams")]

use std::process::ExitCode;

use amends_torture::faults::{self, Fault};
use amends_torture::kills::Run;
use amends_torture::nodes;
use amends_torture::report::Report;
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
    /// Run so many nodes on one store instead of one, and torture all of them, the database and the ways to it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=9), conflicts_with_all = ["kills", "lapses"])]
    nodes: Option<u8>,
    /// How many sagas at least, with --nodes
    #[arg(long, value_name = "N", default_value_t = 2_000, requires = "nodes")]
    sagas: u32,
    /// The store: sqlite: (a fresh file), sqlite:// and a path; redis:, postgres: or mysql: (fresh servers, tortured as well), or one of
    /// them with // and an address
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
        for fault in faults::of(&store).filter(|fault| fault.name.contains(part.as_str())) {
            good &= show(fault, &store);
        }
    }
    if let Some(count) = options.nodes {
        let run = nodes::Run {
            store,
            nodes: count.into(),
            sagas: options.sagas,
            seed: options.seed,
            progress: |line| eprintln!("{line}"),
        };
        good &= tell(&faults::runtime()?.block_on(run.run())?, options.json)?;
    } else if options.kills > 0 || options.lapses > 0 {
        let run = Run {
            store,
            kills: options.kills,
            lapses: options.lapses,
            seed: options.seed,
            lie: None,
            progress: |line| eprintln!("{line}"),
        };
        let report = faults::runtime()?.block_on(run.run())?;
        good &= tell(&report, options.json)?;
    }
    Ok(good)
}

fn tell(report: &Report, json: bool) -> Result<bool> {
    eprint!("{}\n{}", waiting::table(), report.words());
    if json {
        println!("{}", serde_json::to_string(report)?);
    }
    Ok(report.is_good())
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
