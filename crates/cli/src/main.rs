//! The binary `amends`: the server, the commands that talk to it, the demo and the benchmark.
//!
//! This is the only place of the product that picks a store, reads the environment and writes to a terminal.

mod args;
mod bench;
mod client;
mod commands;
mod config;
mod demo;
mod exit;
mod identity;
mod input;
mod output;
mod participants;
mod problem;
mod scratch;
mod server_process;
mod stdin;
mod stores;
mod table;
mod toml_error;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::args::{Amends, Command, Common};
use crate::client::Api;
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};

/// A saga is many small pieces of memory that live for a moment and are freed by another thread: the system's allocator took a quarter of the
/// engine's time for them (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Amends { common, command } = Amends::parse();
    allow_open_files();
    let result = match runtime(&command) {
        Ok(runtime) => {
            let result = runtime.block_on(run(common, command));
            // What still blocks (a read of standard input) must not keep the process.
            runtime.shutdown_background();
            result
        }
        Err(failure) => Err(failure),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            say(&failure.to_string());
            failure.exit.into()
        }
    }
}

/// Asks for as many open files as the system allows this user: each connection is one, and many systems begin low. If it
/// is refused, the limits that were there hold.
fn allow_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A server uses every core; what waits for one server, or is one of many small processes, needs a single thread.
fn runtime(command: &Command) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = match command {
        Command::Serve(_) | Command::BenchBaseline(_) | Command::Bench(_) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        Command::Demo(_)
        | Command::DemoParticipant(_)
        | Command::Check(_)
        | Command::Definition(_)
        | Command::Saga(_)
        | Command::DeadLetter(_)
        | Command::Lock(_)
        | Command::Redis(_)
        | Command::Doctor(_)
        | Command::Completions { .. } => tokio::runtime::Builder::new_current_thread(),
    };
    builder.enable_all().build().map_err(|e| {
        Failure::failed(
            format!("the process cannot be set up: {e}"),
            "check the limits of open files and threads",
        )
    })
}

async fn run(common: Common, command: Command) -> Result<Exit, Failure> {
    let output = Output::new(common.output);
    let api = || Api::new(&common.server);
    match command {
        Command::Serve(serve) => commands::serve::run(serve).await,
        Command::Demo(options) => demo::run(options, output).await,
        Command::Check(check) => commands::check::run(&check, output),
        Command::Definition(command) => commands::definition::run(command, &api()?, output).await,
        Command::Saga(command) => commands::saga::run(command, &api()?, output).await,
        Command::DeadLetter(command) => commands::dead_letter::run(command, &api()?, output).await,
        Command::Lock(command) => commands::lock::run(command, &api()?, output).await,
        Command::Redis(redis) => commands::redis::run(redis, output).await,
        Command::Doctor(doctor) => commands::doctor::run(&doctor, &common.server, output).await,
        Command::Bench(options) => bench::run(options, output).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Amends::command(), "amends", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Done)
        }
        Command::DemoParticipant(options) => demo::participant::run(options).await,
        Command::BenchBaseline(options) => bench::baseline::run(options).await,
    }
}
