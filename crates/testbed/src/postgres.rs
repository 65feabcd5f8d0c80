//! PostgreSQL: one server, with the version that is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::account::{as_user, copy, give, run, server_arguments};
use crate::{Process, ports, template};

/// How long a server may take to get ready. Only what hangs is ended by it.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// The user that the server runs as when tests run as root, which it refuses to.
const SERVER_USER: &str = "postgres";

/// One server with an empty database, in a temporary folder. It syncs every commit unless its settings say otherwise.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    folder: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
}

impl Postgres {
    /// Starts a server.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn start() -> Result<Self> {
        Self::with(&[])
    }

    /// Starts a server with these settings, as in `postgresql.conf`.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self> {
        Self::with_files(settings, &[])
    }

    /// Starts a server that takes connections over TLS too, with this certificate and its key, both in PEM.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn with_tls(certificate: &str, key: &str) -> Result<Self> {
        let settings = [("ssl", "on"), ("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")];
        Self::with_files(&settings, &[("server.crt", certificate), ("server.key", key)])
    }

    /// Starts a server with these settings and these files in its folder, which only it may read.
    fn with_files(settings: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        copy(&template()?, &data)?;
        for (name, text) in files {
            fs::write(data.join(name), text)?;
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600))?;
        }
        give(SERVER_USER, folder.path())?;
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
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

    /// Lets it and all its sessions stand still, or go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn pause(&self, pause: bool) -> Result<()> {
        self.process.pause_with_children(pause)
    }

    /// Starts it again on the same port and data.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        // Children of a killed server see that it is gone only when they next look, and a new one waits for their end.
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

    /// Starts it again as a replica that waits for a primary, and lets clients read.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn restart_as_replica(&mut self) -> Result<()> {
        self.process.kill();
        fs::write(self.folder.path().join("data/standby.signal"), "")?;
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

    /// The URL of its database.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Runs SQL and gives its rows, a line each, columns with `|` between them.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub fn ask(&self, sql: &str) -> Result<String> {
        Self::ask_at(self.port, sql)
    }

    /// As [`Postgres::ask`], of the server at this port: also while somebody else does something to it.
    ///
    /// # Errors
    /// As [`Postgres::ask`].
    pub fn ask_at(port: u16, sql: &str) -> Result<String> {
        let mut psql = Command::new(programs()?.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &url(port), "-c", sql]);
        Ok(run(&mut psql)?.trim_end().to_owned())
    }
}

fn url(port: u16) -> String {
    format!("postgres://{SERVER_USER}@127.0.0.1:{port}/postgres")
}

fn launch(folder: &TempDir, port: u16, settings: &[(String, String)]) -> Result<Process> {
    let data = folder.path().join("data");
    let data = data.to_str().context("the temporary folder's name is not UTF-8")?;
    let programs = programs()?;
    let server = programs.join("postgres");
    let mut arguments = server_arguments(SERVER_USER);
    arguments.extend(["--".to_owned(), server.display().to_string(), "-D".to_owned(), data.to_owned()]);
    let port_text = port.to_string();
    let own =
        [("port", port_text.as_str()), ("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")];
    let given = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.into_iter().chain(given) {
        arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
    }
    let mut process = Process::start("setpriv", "util-linux", &arguments)?;
    let until = Instant::now() + READY_WITHIN;
    while !is_ready(data, process.id()) {
        ensure!(process.is_alive(), "postgres ended while it started on port {port}");
        ensure!(Instant::now() < until, "postgres on port {port} is not ready within {READY_WITHIN:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(process)
}

/// Whether the server with this process id takes connections. It says so in its folder; at its port another one may have been quicker.
fn is_ready(data: &str, id: u32) -> bool {
    let text = fs::read_to_string(Path::new(data).join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines().map(str::trim);
    let is_its_own = lines.next() == Some(&id.to_string());
    is_its_own && lines.any(|line| line == "ready" || line == "standby")
}

/// An empty database's files.
fn template() -> Result<PathBuf> {
    let programs = programs()?;
    let version = programs.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    template::kept(&format!("postgres-{version}-empty"), SERVER_USER, |data| {
        let mut initdb = as_user(SERVER_USER, &programs.join("initdb"));
        initdb.args(["-U", SERVER_USER, "-A", "trust", "-E", "UTF8"]);
        // Small segments of the log make a small folder; the locale is not C, as with most servers.
        initdb.args(["--locale", "C.UTF-8", "--wal-segsize", "1", "-N", "-D"]).arg(data);
        run(&mut initdb).map(drop)
    })
}

/// Where the newest version's programs are: Debian keeps them off the `PATH`.
fn programs() -> Result<PathBuf> {
    let missing = "PostgreSQL's server is not installed; install it: apt-get install postgresql";
    let versions = fs::read_dir("/usr/lib/postgresql").context(missing)?;
    let versions = versions.filter_map(|version| {
        let path = version.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        path.join("bin/postgres").is_file().then(|| (number, path.join("bin")))
    });
    versions.max().map(|(_, path)| path).context(missing)
}
