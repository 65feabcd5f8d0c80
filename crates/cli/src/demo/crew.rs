//! The participants of the demo: a process each, started again when it dies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_shop::{Address, CALM, free_address};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::participant::{MET, READY};
use crate::client::Api;
use crate::exit::Failure;

/// Their names.
pub(super) const NAMES: [&str; 3] = ["inventory", "payment", "shipping"];
/// How long a dead participant stays dead.
const DEAD_FOR: Duration = Duration::from_millis(250);
/// So many deaths before it is ready in a row mean that it cannot live.
const STILLBORN_MAX: u32 = 3;
/// How long all of them may take to begin, and a single one to hear that faults are over.
const START_MAX: Duration = Duration::from_secs(30);

/// What the participants report.
#[derive(Debug, Default, Clone)]
pub(super) struct Report {
    /// Faults met, by name.
    pub(super) faults: BTreeMap<String, u32>,
    /// How often a participant died and was started again.
    pub(super) crashes: u32,
    fatal: Option<String>,
}

/// All participants.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) addresses: Vec<Address>,
    report: Arc<Mutex<Report>>,
    stop: watch::Sender<bool>,
    watchers: Vec<JoinHandle<()>>,
}

/// What a participant is started with.
#[derive(Debug, Clone)]
struct Start {
    program: PathBuf,
    name: String,
    at: SocketAddr,
    folder: PathBuf,
    seed: u64,
    fault_rate: f64,
    crash_at: Option<u32>,
}

impl Crew {
    /// Starts them with their books in `folder` and waits until they are ready. Each dies once, at a request that `orders`
    /// orders are sure to reach.
    pub(super) async fn start(
        folder: &Path,
        seed: u64,
        fault_rate: f64,
        orders: u32,
    ) -> Result<Self, Failure> {
        let broken = |what: String| Failure::failed(what, "run it again");
        let program =
            std::env::current_exe().map_err(|e| broken(format!("this program cannot find itself: {e}")))?;
        let (stop, stopped) = watch::channel(false);
        let mut crew = Self { addresses: Vec::new(), report: Arc::default(), stop, watchers: Vec::new() };
        let mut ready = Vec::new();
        for (n, name) in (0..).zip(NAMES) {
            let at = free_address(&crew.addresses).ok_or_else(|| broken("no port is free".into()))?;
            crew.addresses.push(Address { name: name.into(), at });
            // Odd: it dies after it has done what it was asked to do, even: before. See `die`.
            let crash_at = Some((orders * (3 + n) / 8) & !1 | u32::from(n != 0))
                .filter(|at| *at > 0 && fault_rate > 0.0);
            let (program, folder) = (program.clone(), folder.to_owned());
            let start = Start { program, name: name.into(), at, folder, seed, fault_rate, crash_at };
            let (is_ready, readiness) = watch::channel(false);
            ready.push(readiness);
            crew.watchers.push(tokio::spawn(keep_alive(
                start,
                crew.report.clone(),
                is_ready,
                stopped.clone(),
            )));
        }
        for mut readiness in ready {
            let waited = tokio::time::timeout(START_MAX, readiness.wait_for(|ready| *ready)).await;
            if !matches!(waited, Ok(Ok(_))) {
                let why = crew.report().fatal.unwrap_or_else(|| "it says nothing".into());
                return Err(broken(format!("a participant cannot be started: {why}")));
            }
        }
        Ok(crew)
    }

    /// What was reported so far.
    pub(super) fn report(&self) -> Report {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all faults.
    pub(super) async fn calm(&self) -> Result<(), Failure> {
        for Address { name, at } in &self.addresses {
            let api = Api::without_token(&format!("http://{at}"))?;
            let deadline = tokio::time::Instant::now() + START_MAX;
            // It may be dead at the moment.
            while let Err(e) = api.get(CALM).await {
                if tokio::time::Instant::now() > deadline {
                    return Err(Failure::failed(
                        format!("{name} does not hear that faults are over: {}", e.message),
                        "run it again",
                    ));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Stops them; what was still to arrive late has arrived when this returns.
    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        let _ = self.stop.send(true);
        for watcher in std::mem::take(&mut self.watchers) {
            watcher
                .await
                .map_err(|e| Failure::failed(format!("a participant was lost: {e}"), "run it again"))?;
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Each holds its participant's process, which is killed when it is dropped.
        self.watchers.iter().for_each(JoinHandle::abort);
    }
}

async fn keep_alive(
    mut start: Start,
    report: Arc<Mutex<Report>>,
    ready: watch::Sender<bool>,
    mut stop: watch::Receiver<bool>,
) {
    let mut stillborn = 0;
    while !*stop.borrow() {
        let lived = match spawn(&start) {
            Ok(child) => live(child, &report, &ready, &mut stop).await,
            Err(e) => {
                note(&report, |report| report.fatal = Some(e.to_string()));
                false
            }
        };
        if *stop.borrow() {
            return;
        }
        stillborn = if lived { 0 } else { stillborn + 1 };
        if stillborn >= STILLBORN_MAX {
            // Whoever waits for it learns by the dropped sender.
            return;
        }
        if lived {
            note(&report, |report| report.crashes += 1);
        }
        start.crash_at = None;
        tokio::time::sleep(DEAD_FOR).await;
    }
}

/// Follows one life; tells whether it ever was ready.
async fn live(
    mut child: Child,
    report: &Mutex<Report>,
    ready: &watch::Sender<bool>,
    stop: &mut watch::Receiver<bool>,
) -> bool {
    let mut stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("invariant: stdout is piped");
    let mut lines = BufReader::new(stdout).lines();
    let mut lived = false;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            // It ends when its standard input does.
            Ok(()) = stop.changed(), if stdin.is_some() => { stdin = None; continue }
        };
        match line {
            Ok(Some(line)) if line == READY => {
                lived = true;
                let _ = ready.send(true);
            }
            Ok(Some(line)) => {
                if let Some(fault) = line.strip_prefix(MET) {
                    note(report, |report| *report.faults.entry(fault.to_owned()).or_default() += 1);
                }
            }
            Ok(None) | Err(_) => break,
        }
    }
    if let Err(e) = child.wait().await {
        note(report, |report| report.fatal = Some(e.to_string()));
    }
    lived
}

fn spawn(start: &Start) -> std::io::Result<Child> {
    let mut command = Command::new(&start.program);
    command
        .args(["demo-participant", &start.name, "--listen", &start.at.to_string(), "--folder"])
        .arg(&start.folder)
        .args(["--seed", &start.seed.to_string(), "--fault-rate", &start.fault_rate.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    if let Some(at) = start.crash_at {
        command.args(["--crash-at", &at.to_string()]);
    }
    command.spawn()
}

fn note(report: &Mutex<Report>, change: impl FnOnce(&mut Report)) {
    change(&mut report.lock().unwrap_or_else(PoisonError::into_inner));
}
