//! `amends bench`: orders of three HTTP steps, through amends and through a plain service that keeps nothing, in turn.
//!
//! Both servers are processes of their own, started the same way; clients and participants are in this one. So the two
//! differ in nothing but what amends adds, and a machine that gets slower meanwhile is slower for both.

pub(crate) mod baseline;
mod load;
mod measure;
mod participants;
mod report;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use amends_server::ConnectionLimits;
use clap::{Args, ValueEnum};
use http::Method;

use self::load::{Round, Target};
use self::measure::{Commits, cpu_ms};
use self::participants::NAMES;
use crate::client::{Api, Payload};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Progress, print, print_line};
use crate::scratch::Scratch;
use crate::server_process::ServerProcess;
use crate::stores::{StoreUrl, data_folder};

const DEFINITION: &str = include_str!("order3.toml");
/// The length of a round to aim at: long enough for a steady state, short enough for several of them.
const ROUND_SECONDS: f64 = 2.0;
/// How many rounds each side has at most, and at least.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=15;
/// Load before the first round, so that connections, caches and the clock of the CPU are warm.
const WARM_UP: Duration = Duration::from_millis(1_000);
/// The most connections of the load, and some for whoever else asks.
const CONCURRENCY_MAX: i64 = 4_096;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What is done
    #[arg(long, value_enum, default_value = "order3")]
    workload: Workload,
    /// How many clients submit at once
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX))]
    concurrency: u32,
    /// How long each of the two sides is measured in all
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// The engine's store [default: the embedded one, in a temporary folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Workload {
    /// An order of three steps: reserve, charge, ship
    Order3,
}

/// Limits of the servers of a benchmark: none that it could meet.
pub(super) fn connection_limits() -> ConnectionLimits {
    ConnectionLimits {
        max_connections: 4 * CONCURRENCY_MAX as usize,
        header_timeout: Duration::from_secs(60),
        stop_within: Duration::from_secs(1),
    }
}

/// Runs the benchmark.
pub(crate) async fn run(options: Options, output: Output) -> Result<Exit, Failure> {
    let folder = Scratch::new("bench")?;
    let url = match &options.store {
        Some(url) => url.clone(),
        None => format!("sqlite://{}", folder.path().join("amends.db").display()),
    };
    let store = StoreUrl::parse(&url)?.kind();
    let quiet = options.json || output.is_for_programs();
    let progress = Progress::new(!quiet);
    let rounds = folder.work(measure_all(&options, folder.path(), &url, &progress)).await;
    folder.remove().await;
    let rounds = rounds?;
    let summary = report::Summary::new("order3", store, options.concurrency, &rounds);
    if quiet {
        print_line(&summary)?;
    } else {
        print(&report::words(&summary))?;
    }
    Ok(Exit::Done)
}

/// A round of each side.
#[derive(Debug)]
struct Pair {
    amends: Round,
    baseline: Round,
    cpu_ms: Option<f64>,
    commit_p99_ms: Option<f64>,
}

async fn measure_all(
    options: &Options,
    folder: &Path,
    store: &str,
    progress: &Progress,
) -> Result<Vec<Pair>, Failure> {
    let concurrency = options.concurrency as usize;
    let participants = participants::start().await?;
    let limit = concurrency.max(256);
    let server = start_amends(folder, store, &participants.to_string(), limit).await?;
    let arguments: [OsString; 5] = [
        "bench-baseline".into(),
        "--participants".into(),
        format!("http://{participants}").into(),
        "--max-concurrency".into(),
        limit.to_string().into(),
    ];
    let plain = ServerProcess::start(&arguments, &folder.join("baseline.log")).await?;
    let api = Api::without_token(&server.url)?;
    let definition = Payload::toml(DEFINITION.to_owned());
    api.send(Method::PUT, "/v1/definitions/bench-order3", Some(definition), None, Duration::ZERO).await?;

    let target = |url: &str, path| Target { address: url.trim_start_matches("http://").to_owned(), path };
    let amends = target(&server.url, "/v1/sagas?wait=30s");
    let baseline = target(&plain.url, "/orders");
    let numbers = Arc::new(AtomicU64::new(0));
    progress.show("warming up");
    for side in [&amends, &baseline] {
        load::run(side, concurrency, WARM_UP, &numbers).await?;
    }
    let seconds = f64::from(options.seconds);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "3,600 s at most")]
    let count = ((seconds / ROUND_SECONDS) as usize).clamp(*ROUNDS.start(), *ROUNDS.end());
    let time = Duration::from_secs_f64(seconds / count as f64);
    let mut rounds = Vec::with_capacity(count);
    for n in 1..=count {
        progress.show(&format!("round {n} of {count}"));
        let before = observe(&server, &api).await;
        let of_amends = load::run(&amends, concurrency, time, &numbers).await?;
        let after = observe(&server, &api).await;
        let of_baseline = load::run(&baseline, concurrency, time, &numbers).await?;
        rounds.push(Pair {
            cpu_ms: after.cpu_ms.zip(before.cpu_ms).map(|(after, before)| after - before),
            commit_p99_ms: after.commits.quantile_since(&before.commits, 0.99),
            amends: of_amends,
            baseline: of_baseline,
        });
    }
    progress.clear();
    server.stop().await?;
    plain.stop().await?;
    Ok(rounds)
}

async fn start_amends(
    folder: &Path,
    store: &str,
    participants: &str,
    limit: usize,
) -> Result<ServerProcess, Failure> {
    let mut text = format!("[server]\nmax_connections = {}\n", 2 * CONCURRENCY_MAX);
    text.push_str(&data_folder(folder));
    for name in NAMES {
        text.push_str(&format!(
            "[participants.{name}]\nurl = \"http://{participants}\"\nmax_concurrency = {limit}\n"
        ));
    }
    let config = folder.join("amends.toml");
    std::fs::write(&config, text).map_err(|e| {
        Failure::failed(format!("{} cannot be written: {e}", config.display()), "check the disk")
    })?;
    let mut arguments: Vec<OsString> =
        ["serve", "--listen", "127.0.0.1:0", "--store", store].map(OsString::from).into();
    arguments.extend(["--config".into(), config.into()]);
    ServerProcess::start(&arguments, &folder.join("amends.log")).await
}

/// What the server has used and done so far.
struct Observed {
    cpu_ms: Option<f64>,
    commits: Commits,
}

async fn observe(server: &ServerProcess, api: &Api) -> Observed {
    let metrics = api.text("/metrics").await.unwrap_or_default();
    Observed { cpu_ms: server.pid().and_then(cpu_ms), commits: Commits::read(&metrics) }
}
