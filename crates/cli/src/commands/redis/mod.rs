//! `amends redis …`: the compensation log of an application that has Redis, with no engine in between; and what a server has to be.

pub(crate) mod doctor;
pub(crate) mod log;
pub(crate) mod scan;

use amends_redis::{Error, ErrorKind};
use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::stores::plain_url;

#[derive(Debug, Args)]
pub(crate) struct Redis {
    /// The Redis server, or any node of a cluster
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "AMENDS_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The compensation log: what was done in Redis and how it is undone
    #[command(subcommand)]
    Log(log::Command),
    /// Undo what is pending past its time, adopt what other programs wrote, remove what was settled long ago
    Scan(scan::Options),
    /// Load the functions on every primary
    Install,
    /// Look for settings that would lose records, and for functions that are missing
    Doctor(doctor::Options),
}

/// Runs one of the commands.
pub(crate) async fn run(redis: Redis, output: Output) -> Result<Exit, Failure> {
    let url = plain_url(&redis.url, "--url")?;
    match redis.command {
        Command::Log(command) => log::run(command, &url, output).await,
        Command::Scan(options) => scan::run(options, url, output).await,
        Command::Install => doctor::install(&url, output).await,
        Command::Doctor(options) => doctor::run(&options, &url, output).await,
    }
}

/// What an error of Redis means for whoever ran the command.
pub(crate) fn failure(error: &Error) -> Failure {
    let (exit, next) = match error.kind {
        ErrorKind::Unreachable => {
            (Exit::Failed, "start it, or name another with --url (or AMENDS_REDIS_URL)")
        }
        ErrorKind::Unknown => (Exit::Failed, "repeat the command: a second call gets the first one's answer"),
        ErrorKind::Busy => (Exit::Failed, "nothing was changed: repeat the command in a moment"),
        ErrorKind::OutOfMemory => {
            (Exit::Failed, "nothing was changed: give the server memory (maxmemory), then repeat the command")
        }
        ErrorKind::Unwritable => {
            (Exit::Failed, "nothing was changed: name a primary whose disk and replicas work")
        }
        ErrorKind::Unauthenticated | ErrorKind::Denied => {
            (Exit::Denied, "name a user who may do this: redis://user:password@host:port")
        }
        ErrorKind::CrossSlot => {
            (Exit::Usage, "give id and keys the same hash tag, as order:789:{1001} and balance:{1001}")
        }
        ErrorKind::Refused => {
            (Exit::Usage, "correct what is named and repeat the command; nothing was changed")
        }
        ErrorKind::NoFunction => (Exit::Failed, "repeat the command: the functions are loaded anew"),
        ErrorKind::Unreadable => {
            (Exit::Failed, "`amends redis log show ID` shows what can be read; check the version")
        }
    };
    Failure::new(exit, error.to_string(), next)
}
