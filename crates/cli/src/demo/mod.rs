//! `amends demo`: the real engine, real participants, every kind of fault, and the books compared at the end.

mod crew;
mod drive;
mod engine;
pub(crate) mod participant;
mod report;
mod settle;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_core::definition;
use amends_shop::{DEFINITIONS, Line, Verdict, compare, free_address};
use clap::Args;
use http::Method;
use serde_json::Value;
use tokio::sync::Mutex;

use self::crew::{Crew, NAMES};
use self::drive::Drive;
use self::engine::Engine;
use crate::client::{Api, Payload, encode};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Progress, print, print_line, say};
use crate::scratch::Scratch;
use crate::stores::StoreUrl;

/// How long faults go on after the last order was accepted.
const AFTERMATH: Duration = Duration::from_secs(1);
/// The most orders: each is one of at most six digits, and is held in memory here.
const ORDERS_MAX: i64 = 100_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many orders
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=ORDERS_MAX))]
    orders: u32,
    /// What orders and faults are drawn from: the same seed draws the same ones
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The share of requests that meet a fault, and of orders that business refuses or people cancel; 0: nothing goes wrong
    #[arg(long, value_name = "F", default_value_t = 0.2, value_parser = share)]
    fault_rate: f64,
    /// The engine's store [default: the embedded one, in a temporary folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Leave sagas.jsonl, ledgers/ and the engine's log in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=0.9).contains(share));
    share.ok_or_else(|| format!("`{text}` is not between 0 and 0.9; above that nothing would ever be done"))
}

/// Runs the demo.
pub(crate) async fn run(options: Options, output: Output) -> Result<Exit, Failure> {
    let began = Instant::now();
    if let Some(url) = &options.store {
        StoreUrl::parse(url)?;
    }
    let folder = Scratch::new("demo")?;
    let result = folder.work(act(&options, folder.path(), output)).await;
    let kept = options.keep.as_deref().map_or(Ok(()), |keep| keep_books(folder.path(), keep));
    folder.remove().await;
    kept?;
    let mut played = result?;
    played.seconds = began.elapsed().as_secs_f64();
    if options.json || output.is_for_programs() {
        played.verdict.findings.iter().for_each(|finding| say(finding));
        print_line(&report::Line::from(&played))?;
    } else {
        print(&report::words(&played, options.keep.as_deref()))?;
    }
    Ok(if played.verdict.is_clean() { Exit::Done } else { Exit::Failed })
}

/// What a run gave.
#[derive(Debug)]
struct Played {
    orders: u32,
    seed: u64,
    verdict: Verdict,
    report: crew::Report,
    restarts: u32,
    repeated: u32,
    cancels: u32,
    settled_after: Duration,
    seconds: f64,
}

async fn act(options: &Options, folder: &Path, output: Output) -> Result<Played, Failure> {
    let Options { orders, seed, fault_rate, .. } = *options;
    let has_faults = fault_rate > 0.0;
    let progress = Progress::new(!options.json && !output.is_for_programs());
    let crew = Crew::start(folder, seed, fault_rate, orders).await?;
    let store =
        options.store.clone().unwrap_or_else(|| format!("sqlite://{}", folder.join("amends.db").display()));
    let at =
        free_address(&crew.addresses).ok_or_else(|| Failure::failed("no port is free", "run it again"))?;
    let engine = Engine::start(folder, &store, at.port(), &crew.addresses).await?;
    let api = Api::without_token(engine.url())?;
    let actions = register(&api).await?;

    // A store of the user's own may hold an earlier run.
    let tag = if options.store.is_some() {
        format!("{seed}-{}", jiff::Timestamp::now().as_millisecond())
    } else {
        seed.to_string()
    };
    let planned = amends_shop::orders(seed, &tag, orders, fault_rate);
    let ids: Vec<String> = planned.iter().map(|order| order.id.clone()).collect();
    let engine = Arc::new(Mutex::new(engine));
    let drive = Arc::new(Drive::new(api.clone()));
    drive.clone().run(planned, engine.clone(), has_faults, &crew, &progress).await?;
    if has_faults {
        tokio::time::sleep(AFTERMATH).await;
        crew.calm().await?;
    }
    let calm = Instant::now();
    let sagas = settle::settle(&api, &ids, &progress).await?;
    let settled_after = calm.elapsed();
    progress.clear();
    let engine = Arc::into_inner(engine).expect("invariant: the clients have ended").into_inner();
    let restarts = engine.restarts;
    engine.stop().await?;
    let report = crew.report();
    // What was still on its way arrives now, after every saga has ended: it must not change anything.
    crew.stop().await?;
    write_sagas(folder, &sagas)?;
    let verdict = compare(&sagas, &actions, &read_ledgers(folder)?);
    Ok(Played {
        orders,
        seed,
        verdict,
        report,
        restarts,
        repeated: drive.repeated.load(std::sync::atomic::Ordering::Relaxed),
        cancels: drive.cancels.load(std::sync::atomic::Ordering::Relaxed),
        settled_after,
        seconds: 0.0,
    })
}

/// Registers the definitions; gives the names of each one's steps that have an action.
async fn register(api: &Api) -> Result<HashMap<String, Vec<String>>, Failure> {
    let mut actions = HashMap::new();
    for text in DEFINITIONS {
        let read =
            definition::from_toml(text).expect("invariant: a test reads the demo's definitions").definition;
        let path = format!("/v1/definitions/{}", encode(&read.name));
        api.send(Method::PUT, &path, Some(Payload::toml(text.to_owned())), None, Duration::ZERO).await?;
        let steps =
            read.steps.iter().filter(|step| step.action.is_some()).map(|step| step.name.clone()).collect();
        actions.insert(read.name.clone(), steps);
    }
    Ok(actions)
}

fn read_ledgers(folder: &Path) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for name in NAMES {
        let file = folder.join("ledgers").join(format!("{name}.jsonl"));
        let read: Vec<Line> = amends_shop::read(&file).map_err(|e| unwritable(&file, &e))?;
        lines.extend(read);
    }
    Ok(lines)
}

fn write_sagas(folder: &Path, sagas: &[Value]) -> Result<(), Failure> {
    let file = folder.join("sagas.jsonl");
    let text: String = sagas.iter().map(|saga| format!("{saga}\n")).collect();
    std::fs::write(&file, text).map_err(|e| unwritable(&file, &e))
}

/// Copies what is worth keeping. Files of an earlier run are replaced.
fn keep_books(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to.join("ledgers")).map_err(|e| unwritable(to, &e))?;
    let ledgers = NAMES.iter().map(|name| PathBuf::from("ledgers").join(format!("{name}.jsonl")));
    for file in ledgers.chain(["sagas.jsonl".into(), "engine.log".into()]) {
        // A run that failed early has not written all of them.
        if from.join(&file).is_file() {
            std::fs::copy(from.join(&file), to.join(&file)).map_err(|e| unwritable(&to.join(&file), &e))?;
        }
    }
    Ok(())
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", file.display()), "check the folder and the space on the disk")
}
