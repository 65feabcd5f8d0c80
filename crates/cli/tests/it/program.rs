//! Runs the binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("AMENDS_BIN").map_or_else(|| env!("CARGO_BIN_EXE_amends").into(), PathBuf::from)
}

/// The binary, in `folder`, with none of the variables that would change what it does.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AMENDS_")) {
        command.env_remove(name);
    }
    command.current_dir(folder);
    command
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Its output, as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Itself, if it ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Itself, if its words on stderr contain all of these.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing: {self:?}");
        }
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the binary to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ran {
    command(folder).args(arguments).stdin(Stdio::null()).output().unwrap().into()
}

/// Runs the binary with something on its standard input.
pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut command = command(folder);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// `amends serve` in a folder of its own.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) url: String,
    environment: Vec<(String, String)>,
    child: Child,
}

impl Server {
    /// Starts it with this `amends.toml`, on a free port.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, &[])
    }

    /// Starts it with environment variables too.
    pub(crate) fn start_with(config: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("amends.toml"), config).unwrap();
        let environment: Vec<_> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (child, url) = Self::spawn(folder.path(), &environment);
        Self { folder, url, environment, child }
    }

    fn spawn(folder: &Path, environment: &[(String, String)]) -> (Child, String) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = command(folder);
        command.args(["serve", "--listen", "127.0.0.1:0"]).envs(environment.iter().cloned());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(url) = line.trim().strip_prefix("amends listening on ") else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it said {line:?}; its log: {}", std::fs::read_to_string(folder.join("log")).unwrap());
        };
        (child, url.to_owned())
    }

    /// A client command against it.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Ran {
        let mut command = command(self.folder.path());
        command.args(arguments).env("AMENDS_SERVER", &self.url).stdin(Stdio::null());
        command.output().unwrap().into()
    }

    /// A client command with this token.
    pub(crate) fn cli_as(&self, token: &str, arguments: &[&str]) -> Ran {
        let mut command = command(self.folder.path());
        command
            .args(arguments)
            .env("AMENDS_SERVER", &self.url)
            .env("AMENDS_TOKEN", token)
            .stdin(Stdio::null());
        command.output().unwrap().into()
    }

    /// Registers a definition.
    #[track_caller]
    pub(crate) fn define(&self, text: &str) {
        let file = self.folder.path().join("definition.toml");
        std::fs::write(&file, text).unwrap();
        self.cli(&["definition", "apply", "definition.toml"]).exits(0);
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// SIGTERM; gives the exit code and the log.
    pub(crate) fn terminate(&mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, self.log())
    }

    /// Starts it again in the same folder, on another port.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.url) = Self::spawn(self.folder.path(), &self.environment);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
