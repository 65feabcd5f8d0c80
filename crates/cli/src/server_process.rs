//! A server in a process of its own, as demo and benchmark start it: this same program, with other arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::exit::Failure;

/// How long it may take until it listens. A recovery reads what is in flight, which is little; a machine may be busy.
const START_MAX: Duration = Duration::from_secs(60);
/// How long it may take to stop when asked to.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How many lines of its log an error shows.
const LOG_LINES: usize = 12;

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    log: PathBuf,
    /// Where it listens.
    pub(crate) url: String,
}

impl ServerProcess {
    /// Starts this program with `arguments`, its words appended to `log`, and waits until it says where it listens. It must take
    /// `--stop-with-stdin`.
    pub(crate) async fn start(arguments: &[OsString], log: &Path) -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(|e| broken(&format!("this program cannot find itself: {e}")))?;
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let stderr = stderr.map_err(|e| broken(&format!("{} cannot be written: {e}", log.display())))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg("--stop-with-stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| broken(&format!("the server cannot be started: {e}")))?;
        let stdout = child.stdout.take().expect("invariant: stdout is piped");
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(START_MAX, lines.next_line()).await {
            Ok(Ok(Some(line))) => match line.split_once("http://") {
                Some((_, address)) => {
                    Ok(Self { child, log: log.to_owned(), url: format!("http://{address}") })
                }
                None => Err(with_log(&format!("the server said `{line}`"), log)),
            },
            Ok(Ok(None) | Err(_)) => Err(with_log("the server ended before it listened", log)),
            Err(_) => Err(with_log("the server does not listen", log)),
        }
    }

    /// `kill -9`; returns when it is dead.
    pub(crate) async fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(|e| broken(&format!("the server cannot be killed: {e}")))
    }

    /// Its number, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        match tokio::time::timeout(STOP_MAX, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(with_log(&format!("the server ended with {status}"), &self.log)),
            Ok(Err(e)) => Err(with_log(&format!("the server cannot be waited for: {e}"), &self.log)),
            Err(_) => Err(with_log("the server did not stop when asked to", &self.log)),
        }
    }
}

fn broken(what: &str) -> Failure {
    Failure::failed(what, "run it again; if it stays so, report it with this message")
}

/// An error with the end of the server's log: the folder may be gone when the message is read.
fn with_log(what: &str, log: &Path) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n        ");
    broken(&format!("{what}; its log ends with:\n        {tail}"))
}
