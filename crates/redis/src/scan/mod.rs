//! The scanner: undoes what is pending past its time, oldest first, and loses nothing that it cannot undo.

mod pass;
mod report;
mod sweep;
mod wake;

use std::future::Future;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::client::{Error, ErrorKind};
use crate::log::{Log, TIMEOUT_DEFAULT};

pub use report::{Failure, Parked, Report};

use wake::Wake;

/// How many calls of one scanner are on their way at once.
const CALLS_MAX: usize = 32;

/// How a scanner goes about it.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// How often it looks for what is due. A record that is due earlier, and a wake-up, are looked at earlier.
    pub interval: Duration,
    /// How old a record of another program must be that does not say a longer time itself. Records of the log have
    /// their own time, fixed when they were begun.
    pub threshold: Duration,
    /// How often it goes through all keys for records of other programs.
    pub sweep_interval: Duration,
    /// How long settled records are kept: within that time a repeated call gets the first one's answer.
    pub retention: Duration,
    /// The most records that one pass handles; the next follows at once if there are more.
    pub batch_max: usize,
    /// How often a rollback may be refused before the record is parked.
    pub attempts_max: u64,
    /// The URL of the server, to be woken by messages; without it, only the interval counts.
    pub wake_url: Option<String>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            threshold: TIMEOUT_DEFAULT,
            sweep_interval: Duration::from_secs(5 * 60),
            retention: Duration::from_secs(7 * 24 * 3600),
            batch_max: 1_000,
            attempts_max: 8,
            wake_url: None,
        }
    }
}

/// A scanner. Any number may work on one log at once: what one did is what the others get as answer.
#[derive(Debug)]
pub struct Scanner {
    log: Log,
    options: ScanOptions,
    /// Something was adopted that may be due already.
    adopted: Notify,
}

impl Scanner {
    /// Makes one.
    #[must_use]
    pub fn new(log: Log, options: ScanOptions) -> Self {
        Self { log, options, adopted: Notify::new() }
    }

    /// Goes through all keys once, then handles everything that is due, up to `batch_max`. Stopped midway, it has done a part; the
    /// next one goes on.
    ///
    /// # Errors
    /// If the server cannot be asked. What went wrong with single records is in the report.
    pub async fn run_once(&self) -> Result<Report, Error> {
        let mut report = Report::default();
        self.sweep(&mut report).await?;
        self.pass(&mut report).await?;
        Ok(report)
    }

    /// Scans until `stop` is ready. What each round did goes to `heard`, if it did anything; errors are logged and
    /// the next round tries again.
    pub async fn run(&self, stop: impl Future<Output = ()>, heard: impl Fn(&Report)) {
        // Dropped midway, both leave nothing half done: each call is one atomic step.
        tokio::select! {
            () = stop => {}
            () = self.passes(&heard) => {}
            () = self.sweeps(&heard) => {}
        }
    }

    async fn passes(&self, heard: &impl Fn(&Report)) {
        let mut wake = Wake::new(self.options.wake_url.clone(), self.log.client().is_cluster());
        loop {
            wake.listen().await;
            let mut report = Report::default();
            let failed = self.pass(&mut report).await.err();
            tell("a scan", &report, failed.as_ref(), heard);
            let pause = match (failed, report.left) {
                (None, true) if report.failures.is_empty() => continue,
                (None, _) => {
                    report.next_due.map_or(self.options.interval, |next| next.min(self.options.interval))
                }
                (Some(_), _) => self.options.interval,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = wake.woken() => {}
                () = self.adopted.notified() => {}
            }
        }
    }

    async fn sweeps(&self, heard: &impl Fn(&Report)) {
        loop {
            let mut report = Report::default();
            let failed = self.sweep(&mut report).await.err();
            tell("a sweep", &report, failed.as_ref(), heard);
            if report.adopted > 0 {
                self.adopted.notify_one();
            }
            tokio::time::sleep(self.options.sweep_interval).await;
        }
    }
}

fn tell(what: &str, report: &Report, failed: Option<&Error>, heard: &impl Fn(&Report)) {
    for parked in &report.parked {
        tracing::warn!("{} needs a person: {}", parked.id, parked.reason);
    }
    for failure in &report.failures {
        tracing::warn!("{}: {}; it is tried again", failure.what, failure.error);
    }
    if let Some(e) = failed {
        tracing::warn!("{what} of the compensation log stopped: {e}; it is tried again");
    }
    if !report.is_empty() {
        heard(report);
    }
}

/// Whether an error is about the server, so that the next call would get the same.
fn concerns_all(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Unreachable
        | ErrorKind::Unknown
        | ErrorKind::Busy
        | ErrorKind::OutOfMemory
        | ErrorKind::Unwritable
        | ErrorKind::Unauthenticated
        | ErrorKind::Denied
        | ErrorKind::NoFunction => true,
        ErrorKind::CrossSlot | ErrorKind::Refused | ErrorKind::Unreadable => false,
    }
}

/// Runs tasks, [`CALLS_MAX`] at once, and gives what they gave in their order.
async fn each<T: Send + 'static>(tasks: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let mut running = JoinSet::new();
    let mut outputs = Vec::new();
    for (nth, task) in tasks.into_iter().enumerate() {
        if running.len() >= CALLS_MAX {
            outputs.extend(running.join_next().await);
        }
        running.spawn(async move { (nth, task.await) });
    }
    while let Some(done) = running.join_next().await {
        outputs.push(done);
    }
    // One that is missing would give its successors' outputs to others.
    let mut outputs: Vec<_> = outputs
        .into_iter()
        .map(|done| done.expect("invariant: no call panics, and nobody aborts one"))
        .collect();
    outputs.sort_by_key(|(nth, _)| *nth);
    outputs.into_iter().map(|(_, output)| output).collect()
}
