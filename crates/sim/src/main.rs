//! The long run: seed after seed, until the time is over.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks on its standard streams")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use amends_sim::{Report, Totals, run_seed};
use clap::Parser;

/// Runs the simulation: the real engine on virtual time, with a crash and a fault at every port call.
#[derive(Debug, Parser)]
#[command(name = "amends-sim")]
struct Arguments {
    /// How long to go on, in seconds of real time.
    #[arg(long)]
    seconds: Option<u64>,
    /// The first seed; without --seconds: the only one, with its whole trace.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A file to which failing seeds are appended.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match (arguments.seconds, arguments.seed) {
        (None, Some(seed)) => one(seed),
        (None, None) => {
            eprintln!("say how long (--seconds N), or which seed (--seed N)");
            ExitCode::from(2)
        }
        (Some(seconds), seed) => many(Duration::from_secs(seconds), seed.unwrap_or_else(drawn), &arguments),
    }
}

/// Somewhere to begin that no earlier run began at.
fn drawn() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() << 20)
}

fn one(seed: u64) -> ExitCode {
    let report = run_seed(seed, true);
    for line in &report.lines {
        println!("{line}");
    }
    println!("digest {:016x} of {} events", report.digest, report.events);
    match report.failure() {
        None => {
            println!("seed {seed}: all is well");
            ExitCode::SUCCESS
        }
        Some(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn many(time: Duration, first: u64, arguments: &Arguments) -> ExitCode {
    println!("seeds from {first} on, for {} s", time.as_secs());
    let begun = Instant::now();
    let next = AtomicU64::new(first);
    let failures = Mutex::new(());
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                let mut own = Totals::default();
                while begun.elapsed() < time {
                    let report = run_seed(next.fetch_add(1, Ordering::Relaxed), false);
                    own.add(&report);
                    if report.failure().is_some() {
                        let _one_at_a_time = failures.lock();
                        tell(&report, arguments);
                    }
                }
                if let Ok(mut totals) = totals.lock() {
                    totals.merge(own);
                }
            });
        }
    });
    let Ok(totals) = totals.into_inner() else { return ExitCode::FAILURE };
    println!("{totals}");
    println!("real time       {:.0} s", begun.elapsed().as_secs_f64());
    if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(report: &Report, arguments: &Arguments) {
    if let Some(failure) = report.failure() {
        println!("{failure}");
    }
    let Some(keep) = &arguments.keep else { return };
    let kept = OpenOptions::new().create(true).append(true).open(keep).and_then(|mut file| {
        let invariants: Vec<&str> = report.violations.iter().map(|violation| violation.invariant).collect();
        writeln!(file, "{} # {}", report.seed, invariants.join(", "))
    });
    if let Err(error) = kept {
        eprintln!("the seed could not be appended to {}: {error}", keep.display());
    }
}
