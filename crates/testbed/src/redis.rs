//! Redis: one server, one with a replica, a cluster of three primaries.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::{Process, ports};

/// How long a server may take to get ready. Only what hangs is ended by it.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Settings of a server that loses nothing: what the stores ask for.
pub const DURABLE: &[(&str, &str)] =
    &[("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction")];

/// One server, with its data in a temporary folder.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    folder: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
}

impl Redis {
    /// Starts a server that syncs every write.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn start() -> Result<Self> {
        Self::with(DURABLE)
    }

    /// Starts a server with these settings, as in `redis.conf`.
    ///
    /// # Errors
    /// If it is not installed or does not get ready.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
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

    /// Starts a server that replicates this one, and waits until it has caught up.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn replica(&self) -> Result<Self> {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let primary = format!("127.0.0.1 {}", self.port);
        settings.push(("replicaof", &primary));
        settings.push(("repl-diskless-sync-delay", "0"));
        let replica = Self::with(&settings)?;
        replica.wait_until("the replica has caught up", |server| {
            Ok(server.ask(&["INFO", "replication"])?.contains("master_link_status:up"))
        })?;
        Ok(replica)
    }

    /// Makes a replica a primary, as a fail-over does.
    ///
    /// # Errors
    /// If it refuses.
    pub fn promote(&self) -> Result<()> {
        self.ask(&["REPLICAOF", "NO", "ONE"]).map(drop)
    }

    /// Kills the server, as a power failure would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same port and data.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = launch(&self.folder, self.port, &self.settings)?;
        Ok(())
    }

    /// Removes what it has on disk. The server must not run.
    ///
    /// # Errors
    /// If the files cannot be removed.
    pub fn forget_data(&mut self) -> Result<()> {
        ensure!(!self.process.is_alive(), "the server still runs");
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
        }
        Ok(())
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its data folder.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends one command and gives the reply in text: a list is a line an item. An error reply is an error.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub fn ask(&self, command: &[&str]) -> Result<String> {
        ask(self.port, command)
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        while !is_so(self)? {
            ensure!(
                Instant::now() < until,
                "redis on port {}: {what}: not within {READY_WITHIN:?}",
                self.port
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// A cluster of three primaries without replicas.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts it, and waits until every node knows all slots.
    ///
    /// # Errors
    /// If a node does not start, or they do not find each other.
    pub fn start() -> Result<Self> {
        let settings = [DURABLE, &[("cluster-enabled", "yes"), ("cluster-node-timeout", "5000")]].concat();
        let nodes = (0..3).map(|_| Redis::with(&settings)).collect::<Result<Vec<_>>>()?;
        for (node, (from, to)) in nodes.iter().zip([(0, 5_460), (5_461, 10_922), (10_923, 16_383)]) {
            node.ask(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()])?;
            node.ask(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()])?;
        }
        for node in &nodes {
            node.wait_until("the cluster is whole", |node| {
                let info = node.ask(&["CLUSTER", "INFO"])?;
                Ok(info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3"))
            })?;
        }
        Ok(Self { nodes })
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// One of its nodes.
    pub fn node_mut(&mut self, nth: usize) -> Option<&mut Redis> {
        self.nodes.get_mut(nth)
    }

    /// The URL of one node: clients find the others.
    #[must_use]
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }
}

fn launch(folder: &TempDir, port: u16, settings: &[(String, String)]) -> Result<Process> {
    let mut arguments: Vec<String> = Vec::new();
    let folder = folder.path().to_str().context("the temporary folder's name is not UTF-8")?.to_owned();
    let own = [
        ("port", port.to_string()),
        ("bind", "127.0.0.1".to_owned()),
        ("dir", folder),
        ("save", String::new()),
    ];
    for (name, value) in own.iter().map(|(n, v)| (*n, v)).chain(settings.iter().map(|(n, v)| (n.as_str(), v)))
    {
        arguments.push(format!("--{name}"));
        // A value of several words is several arguments.
        if value.is_empty() {
            arguments.push(String::new());
        }
        arguments.extend(value.split(' ').filter(|word| !word.is_empty()).map(str::to_owned));
    }
    let mut process = Process::start("redis-server", "redis-server", &arguments)?;
    let until = Instant::now() + READY_WITHIN;
    // Another server may have taken the port meanwhile: that one answers, too.
    let own = format!("process_id:{}\r\n", process.id());
    let is_own = || ask(port, &["INFO", "server"]).is_ok_and(|info| info.contains(&own));
    // While it reads its data it answers no PING.
    while !(is_own() && ask(port, &["PING"]).is_ok_and(|pong| pong == "PONG")) {
        ensure!(process.is_alive(), "redis-server ended while it started on port {port}");
        ensure!(Instant::now() < until, "redis-server on port {port} is not ready within {READY_WITHIN:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(process)
}

/// One command over a connection of its own. Test servers need nothing better.
fn ask(port: u16, command: &[&str]) -> Result<String> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        write!(request, "${}\r\n{word}\r\n", word.len())?;
    }
    (&stream).write_all(&request)?;
    read_reply(&mut BufReader::new(stream))
}

fn read_reply(reader: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    let rest = line.get(1..).unwrap_or_default();
    match line.chars().next() {
        Some('+' | ':') => Ok(rest.to_owned()),
        Some('-') => bail!("redis: {rest}"),
        Some('$') => {
            let Ok(length) = rest.parse::<usize>() else { return Ok(String::new()) };
            let mut bytes = vec![0; length + 2];
            std::io::Read::read_exact(reader, &mut bytes)?;
            bytes.truncate(length);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        Some('*') => {
            let count = rest.parse::<usize>().unwrap_or(0);
            let items = (0..count).map(|_| read_reply(reader)).collect::<Result<Vec<_>>>()?;
            Ok(items.join("\n"))
        }
        _ => bail!("redis sent no reply"),
    }
}
