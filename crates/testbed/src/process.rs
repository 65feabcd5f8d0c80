//! A server's process: it ends with the value, whatever became of the test.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program. `package` is what to install if it is missing.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: &str, package: &str, arguments: &[String]) -> Result<Self> {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{program} cannot be started; install it: apt-get install {package}"))?;
        Ok(Self { child })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once, as a power failure would, and waits until it is gone. A second call does nothing.
    pub fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn pause(&self, pause: bool) -> Result<()> {
        self.signal(if pause { Signal::STOP } else { Signal::CONT })
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// If it is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).context("the process is gone")
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that stands still does not die of it: SIGKILL works all the same.
        self.kill();
    }
}
