//! A server's process: it ends with the value, whatever became of the test.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};

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
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = spawn(command)
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

    /// Lets it and the processes that it has started stand still, or go on: a server with a process a connection.
    ///
    /// # Errors
    /// If it is gone, or the system does not tell its children.
    pub fn pause_with_children(&self, pause: bool) -> Result<()> {
        let id = self.child.id();
        if pause {
            // First, so that no other one is started meanwhile.
            self.pause(true)?;
        }
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let signal = if pause { Signal::STOP } else { Signal::CONT };
        for child in children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
            // One that has just ended needs no signal.
            let _ = kill_process(child, signal);
        }
        if pause { Ok(()) } else { self.pause(false) }
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

/// What the thread is asked that starts all processes, and where it answers.
type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a program on a thread that lives as long as this program. The system ends such a child when the *thread* that started it ends,
/// and those of a runtime come and go.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                // Whoever asked waits for it.
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, answered) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}
