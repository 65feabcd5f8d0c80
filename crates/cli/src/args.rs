//! The command line. Flags go before `AMENDS_*` variables, those before `amends.toml`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::commands::{dead_letter, definition, lock, redis, saga};
use crate::output::Format;
use crate::{bench, demo};

/// Makes operations that span systems whole: drives them forward, undoes them, or puts them before a person.
#[derive(Debug, Parser)]
#[command(name = "amends", version, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Amends {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 time over, 6 denied, 7 partial,
            8 the saga waited for ended compensated, 9 it needs a person.

The token of a server that asks for one is read from AMENDS_TOKEN.
First steps: `amends demo` shows it at work, `amends serve` starts a server.";

/// Flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// How data is written to stdout
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        env = "AMENDS_OUTPUT",
        default_value = "table",
        hide_env = true
    )]
    pub(crate) output: Format,
    /// The server that client commands talk to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "AMENDS_SERVER",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the engine and its HTTP API
    Serve(Serve),
    /// Show what amends does: orders through three participants, every kind of fault, then the books compared
    Demo(demo::Options),
    /// Read a definition and name everything that registration would refuse or warn of
    Check(Check),
    /// Register and read definitions
    #[command(subcommand)]
    Definition(definition::Command),
    /// Start, watch and steer sagas
    #[command(subcommand)]
    Saga(saga::Command),
    /// Sagas that machines may no longer drive
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// Acquire, renew and release lease locks
    #[command(subcommand)]
    Lock(lock::Command),
    /// Redis servers: settings, functions, the compensation log and its scanner
    Redis(redis::Redis),
    /// Look for what is wrong with configuration, store and server
    Doctor(Doctor),
    /// Measure sagas a second against a plain service that makes the same calls and keeps nothing
    Bench(bench::Options),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// A participant of the demo (started by it)
    #[command(hide = true)]
    DemoParticipant(demo::participant::Options),
    /// The plain service that `bench` compares with (started by it)
    #[command(hide = true)]
    BenchBaseline(bench::baseline::Options),
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration; without it, ./amends.toml if there is one
    #[arg(long, value_name = "FILE", env = "AMENDS_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS", env = "AMENDS_LISTEN")]
    pub(crate) listen: Option<String>,
    /// The store [default: sqlite://amends.db]
    #[arg(long, value_name = "URL", env = "AMENDS_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Stop when standard input ends, so that no server outlives the program that started it
    #[arg(long, hide = true)]
    pub(crate) stop_with_stdin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The definition: TOML, or JSON if its name ends in .json; `-` reads standard input
    pub(crate) file: String,
    /// Also warn of participants that this configuration does not name
    #[arg(long, value_name = "FILE", env = "AMENDS_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// How many faults may happen in one story
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=i64::from(amends_check::FAULTS_MAX)))]
    pub(crate) faults: u32,
    /// How long it may take; what is not explored by then is unfinished
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) time: Duration,
    /// Also fail where a person may be needed, or not everything was explored
    #[arg(long)]
    pub(crate) strict: bool,
    /// Draw the definition instead of exploring it
    #[arg(long, value_enum, value_name = "AS")]
    pub(crate) graph: Option<Graph>,
}

/// How a definition is drawn.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Graph {
    /// A Mermaid flowchart.
    Mermaid,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The configuration to look at; without it, ./amends.toml if there is one
    #[arg(long, value_name = "FILE", env = "AMENDS_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The store to look at
    #[arg(long, value_name = "URL", env = "AMENDS_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Say that what a shared store has lost (a snapshot put back, a fail-over) is lost, so that its engines go on
    #[arg(long, requires = "reason")]
    pub(crate) accept_loss: bool,
    /// Why; kept in the store
    #[arg(long, value_name = "TEXT", requires = "accept_loss")]
    pub(crate) reason: Option<String>,
}

/// Reads a saga's id, as the server does.
pub(crate) fn saga_id(text: &str) -> Result<String, String> {
    amends_core::SagaId::new(text).map(Into::into).map_err(|e| e.to_string())
}

/// Reads a length of time such as `500ms`, `5s`, `2m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let hint = || format!("`{text}` is not a length of time; write it as 500ms, 5s, 2m or 1h");
    let signed: jiff::SignedDuration = text.parse().map_err(|_| hint())?;
    Duration::try_from(signed).map_err(|_| hint())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Amends::command().debug_assert();
    }

    #[test]
    fn lengths_of_time() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "-5s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
