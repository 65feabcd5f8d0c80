//! MariaDB: one server, with the version that is installed.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::account::{as_user, copy, give, run, server_arguments};
use crate::{Process, ports, template};

/// How long a server may take to get ready. Only what hangs is ended by it.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// The user of the system that the server runs as when tests run as root, which it refuses to.
const SERVER_USER: &str = "mysql";

/// Where Debian has the server, which is often missing from the `PATH` of an ordinary user.
const SERVER: &str = "/usr/sbin/mariadbd";

/// How the files of an empty database are laid out: small ones are copied quickly. A server on them needs the same.
const LAYOUT: [&str; 3] = [
    "--innodb-log-file-size=8M",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
    "--innodb-autoextend-increment=1",
];

/// What each start of a server runs before it lets anybody in: a database, and a user who may do anything in it, but nothing else.
const INIT: &str = "CREATE DATABASE IF NOT EXISTS amends;
CREATE USER IF NOT EXISTS amends@'%' IDENTIFIED BY 'amends';
GRANT ALL ON amends.* TO amends@'%';
";

/// One server with an empty database `amends`, in a temporary folder. It syncs every commit unless its settings say otherwise.
#[derive(Debug)]
pub struct MariaDb {
    process: Process,
    folder: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
}

impl MariaDb {
    /// Starts a server.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn start() -> Result<Self> {
        Self::with(&[])
    }

    /// Starts a server with these settings, as in `my.cnf`.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        copy(&template()?, &folder.path().join("data"))?;
        fs::write(folder.path().join("init.sql"), INIT)?;
        give(SERVER_USER, folder.path())?;
        let settings = owned(settings);
        // Somebody else may take the port between asking for it and listening on it.
        let mut last = None;
        for _ in 0..5 {
            let port = ports::free()?;
            match launch(&folder, port, &settings) {
                Ok(process) => return Ok(Self { process, folder, port, settings }),
                Err(e) => last = Some(e),
            }
        }
        Err(last.context("no attempt was made")?)
    }

    /// Kills the server. What it has synced is all that the next start finds.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn pause(&self, pause: bool) -> Result<()> {
        self.process.pause(pause)
    }

    /// Kills it and starts it again on the same port and data.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        // The port may be taken for a moment by a client that was given its number, or by the dead server's connections.
        let until = Instant::now() + READY_WITHIN;
        loop {
            match launch(&self.folder, self.port, &self.settings) {
                Ok(process) => {
                    self.process = process;
                    return Ok(());
                }
                Err(e) if Instant::now() > until => return Err(e),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Kills it and starts it again with these settings instead of those it had.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn restart_with(&mut self, settings: &[(&str, &str)]) -> Result<()> {
        self.settings = owned(settings);
        self.restart()
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its database, for the user who owns it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://amends:amends@127.0.0.1:{}/amends", self.port)
    }

    /// Runs SQL as root in its database, and gives its rows, a line each, columns with a tab between them.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub fn ask(&self, sql: &str) -> Result<String> {
        Self::ask_at(self.port, sql)
    }

    /// As [`MariaDb::ask`], of the server at this port: also while somebody else does something to it.
    ///
    /// # Errors
    /// As [`MariaDb::ask`].
    pub fn ask_at(port: u16, sql: &str) -> Result<String> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--protocol=tcp", "-h127.0.0.1", "-uroot", "-N", "-B"]);
        client.arg(format!("-P{port}")).args(["--default-character-set=utf8mb4", "-e", sql, "amends"]);
        Ok(run(&mut client)?.trim_end().to_owned())
    }
}

fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn launch(folder: &TempDir, port: u16, settings: &[(String, String)]) -> Result<Process> {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let pid_file = path("pid");
    let mut arguments = server_arguments(SERVER_USER);
    // It takes no settings of this machine's.
    arguments.extend(["--", SERVER, "--no-defaults"].map(str::to_owned));
    arguments.extend(LAYOUT.map(str::to_owned));
    arguments.push(format!("--port={port}"));
    arguments.push("--bind-address=127.0.0.1".to_owned());
    // Otherwise it asks a name server who is at 127.0.0.1.
    arguments.push("--skip-name-resolve".to_owned());
    for (name, file) in [("datadir", "data"), ("socket", "socket"), ("init-file", "init.sql")] {
        arguments.push(format!("--{name}={}", path(file)));
    }
    arguments.push(format!("--pid-file={pid_file}"));
    arguments.push(format!("--log-error={}", path("log")));
    arguments.extend(settings.iter().map(|(name, value)| format!("--{name}={value}")));
    let mut process = Process::start("setpriv", "util-linux", &arguments)?;
    let until = Instant::now() + READY_WITHIN;
    while !(is_its_own(&pid_file, process.id()) && greets(port)) {
        ensure!(
            process.is_alive(),
            "mariadbd ended while it started on port {port}: {}",
            last_words(&folder.path().join("log"))
        );
        ensure!(Instant::now() < until, "mariadbd on port {port} is not ready within {READY_WITHIN:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(process)
}

/// Whether the server with this process id has taken its port: it writes the file then. At the port itself another one may have been quicker.
fn is_its_own(pid_file: &str, id: u32) -> bool {
    fs::read_to_string(pid_file).is_ok_and(|text| text.trim() == id.to_string())
}

/// Whether it lets clients in: it listens earlier than it speaks.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut first = [0; 5];
    stream.set_read_timeout(Some(READY_WITHIN)).is_ok() && stream.read_exact(&mut first).is_ok()
}

/// Errors that a server wrote down.
fn last_words(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("[ERROR]")).collect();
    if errors.is_empty() { "it wrote no error down".to_owned() } else { errors.join("\n") }
}

/// An empty database's files.
fn template() -> Result<PathBuf> {
    let missing = "MariaDB's server is not installed; install it: apt-get install mariadb-server";
    ensure!(Path::new(SERVER).is_file(), missing);
    let version = run(Command::new(SERVER).arg("--version"))?;
    let version =
        version.split_whitespace().find_map(|word| word.split_once("-MariaDB")).map(|found| found.0);
    let name = format!("mariadb-{}-empty", version.unwrap_or("unknown"));
    template::kept(&name, SERVER_USER, |data| {
        let mut install = as_user(SERVER_USER, Path::new("mariadb-install-db"));
        // Root needs no password, and comes from loopback alone.
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", "--skip-name-resolve"]).args(LAYOUT);
        run(install.arg(format!("--datadir={}", data.display()))).map(drop)
    })
}
