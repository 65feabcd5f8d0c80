//! The engine under torture: `amends serve`, as anybody runs it, in a process of its own.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long it may take until it listens: a machine may be busy.
const START_MAX: Duration = Duration::from_secs(90);
/// How long it may take to stop when asked to.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How many lines of its log an error shows.
const LOG_LINES: usize = 15;

/// What the engine is started with, again and again.
#[derive(Debug, Clone)]
pub struct Start {
    /// Its folder, with `amends.toml` in it; it writes `engine.log` there.
    pub folder: PathBuf,
    /// The URL of its store.
    pub store: String,
    /// Where it listens: it comes back at the same place.
    pub port: u16,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// Ignore the signal that a limit on file sizes sends, so that writing fails instead.
    pub write_errors: bool,
}

/// The running engine. Dropping it kills it.
#[derive(Debug)]
pub struct Engine {
    start: Start,
    child: Child,
    /// How often it was started after the first time.
    pub restarts: u32,
}

/// The binary under torture: the one that `AMENDS_BIN` names, else the one beside this program, else in `target`.
///
/// # Errors
/// If there is none.
pub fn binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("AMENDS_BIN") {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().context("this program cannot find itself")?;
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("amends"));
    beside.into_iter().find(|file| file.is_file()).context(
        "there is no binary `amends`: build it (`cargo build -p amends-cli`), or name it in AMENDS_BIN",
    )
}

impl Engine {
    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// If it ends instead; the error has the end of its log.
    pub async fn start(start: Start) -> Result<Self> {
        let child = spawn(&start)?;
        let mut engine = Self { start, child, restarts: 0 };
        engine.listens().await?;
        Ok(engine)
    }

    /// Starts it where it must not come up; gives its exit code and what it wrote on stderr.
    ///
    /// # Errors
    /// If it listens.
    pub async fn start_in_vain(start: &Start) -> Result<(Option<i32>, String)> {
        let before = log(start).len();
        let mut engine = Self { start: start.clone(), child: spawn(start)?, restarts: 0 };
        if engine.listens().await.is_ok() {
            bail!("it listens, although it must not");
        }
        let status =
            tokio::time::timeout(STOP_MAX, engine.child.wait()).await.context("it does not end")??;
        Ok((status.code(), log(start)[before..].to_owned()))
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.start.port)
    }

    /// What it is started with from the next time on.
    pub fn start_with(&mut self) -> &mut Start {
        &mut self.start
    }

    /// `kill -9`; returns when it is dead.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Starts it again after its death, and waits until it listens.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub async fn start_again(&mut self) -> Result<()> {
        self.spawn_again()?;
        self.listens().await
    }

    /// Starts it again after its death, and waits for nothing.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn_again(&mut self) -> Result<()> {
        self.child = spawn(&self.start)?;
        self.restarts += 1;
        Ok(())
    }

    /// Stops it where it stands (SIGSTOP).
    ///
    /// # Errors
    /// If it is dead.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// If it is dead.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// From now on no file of its may grow beyond so many bytes; `None`: as far as it likes. Needs [`Start::write_errors`].
    ///
    /// # Errors
    /// If the system cannot limit another process.
    #[cfg(target_os = "linux")]
    pub fn limit_files(&self, bytes: Option<u64>) -> Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()?), Resource::Fsize, limit).context("prlimit")?;
        Ok(())
    }

    /// From now on no file of its may grow beyond so many bytes.
    ///
    /// # Errors
    /// Always: only Linux can limit another process.
    #[cfg(not(target_os = "linux"))]
    pub fn limit_files(&self, _: Option<u64>) -> Result<()> {
        bail!("only Linux can limit the files of another process")
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// If it does not, or not in order.
    pub async fn stop(&mut self) -> Result<()> {
        // Waiting closes its standard input, which would tell it a second time.
        let _stdin = self.child.stdin.take();
        self.signal(Signal::TERM)?;
        let status =
            tokio::time::timeout(STOP_MAX, self.child.wait()).await.context("it does not stop")??;
        ensure!(status.success(), "the engine ended with {status}; {}", self.tail());
        Ok(())
    }

    /// Everything it wrote to its log in all its lives.
    #[must_use]
    pub fn log(&self) -> String {
        log(&self.start)
    }

    /// The bytes of memory it has in hand; `None` where the system does not tell.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    }

    fn pid(&self) -> Result<Pid> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        id.and_then(Pid::from_raw).context("the engine is dead")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// Waits until it says where it listens.
    ///
    /// # Errors
    /// If it ends instead.
    pub async fn listens(&mut self) -> Result<()> {
        let stdout = self.child.stdout.take().context("it is waited for twice")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(START_MAX, lines.next_line()).await {
            Ok(Ok(Some(line))) if line.contains("http://") => Ok(()),
            Ok(Ok(line)) => bail!("the engine said {line:?} instead of where it listens; {}", self.tail()),
            Ok(Err(e)) => bail!("the engine cannot be read: {e}; {}", self.tail()),
            Err(_) => bail!("the engine does not listen after {} s; {}", START_MAX.as_secs(), self.tail()),
        }
    }

    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        format!("its log ends with:\n{}", lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
    }
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("engine.log")
}

fn log(start: &Start) -> String {
    std::fs::read(log_file(&start.folder))
        .map(|log| String::from_utf8_lossy(&log).into_owned())
        .unwrap_or_default()
}

fn spawn(start: &Start) -> Result<Child> {
    let binary = std::path::absolute(binary()?)?;
    let log = OpenOptions::new().create(true).append(true).open(log_file(&start.folder))?;
    let mut command = if start.write_errors {
        // A signal that is ignored stays ignored by the program that the shell becomes.
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(&binary);
        shell
    } else {
        Command::new(&binary)
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AMENDS_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--stop-with-stdin", "--config", "amends.toml", "--store", &start.store])
        .args(["--listen", &format!("127.0.0.1:{}", start.port)])
        .envs(start.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&start.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} cannot be started", binary.display()))
}
