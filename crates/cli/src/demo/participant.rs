//! A participant of the demo, in a process of its own: it may be killed at any moment.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use amends_shop::Participant;
use clap::Args;
use tokio::net::TcpListener;

use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::stdin;

/// The line on stdout that says that requests are answered from now on.
pub(super) const READY: &str = "ready";
/// What a line on stdout that reports a fault begins with.
pub(super) const MET: &str = "fault ";

/// How often, and how far apart, the address is tried again: a killed process frees it within moments.
const BIND_TRIES: u32 = 100;
const BIND_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Its name: inventory, payment or shipping
    name: String,
    /// Where it listens
    #[arg(long)]
    listen: SocketAddr,
    /// Where its books are
    #[arg(long)]
    folder: PathBuf,
    /// What faults are drawn from
    #[arg(long)]
    seed: u64,
    /// The share of requests that meet a fault
    #[arg(long)]
    fault_rate: f64,
    /// Kill itself at this request to do something, counted from its start
    #[arg(long)]
    crash_at: Option<u32>,
}

/// Runs until standard input ends; then what is still to arrive late arrives, and it ends.
pub(crate) async fn run(options: Options) -> Result<Exit, Failure> {
    let broken = |what: &str, e: &io::Error| Failure::failed(format!("{what}: {e}"), "see the demo's report");
    let Options { name, listen, folder, seed, fault_rate, crash_at } = options;
    // The demo that started this process counts the lines; once it is gone there is nobody to count.
    let met = Arc::new(|fault: &'static str| drop(print(&format!("{MET}{fault}\n"))));
    let options = amends_shop::Options { name, folder, seed, fault_rate, crash_at, lie: None, met };
    let participant = Participant::open(options).map_err(|e| broken("the books cannot be opened", &e))?;
    let listener = bind(listen).await.map_err(|e| broken("the address cannot be used", &e))?;
    print(&format!("{READY}\n"))?;
    participant.serve(listener, stdin::ended()).await;
    Ok(Exit::Done)
}

async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(address).await {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && tries < BIND_TRIES => {
                tokio::time::sleep(BIND_AGAIN).await
            }
            result => return result,
        }
        tries += 1;
    }
}
