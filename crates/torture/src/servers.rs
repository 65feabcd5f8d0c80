//! Servers that a run starts, ends, stops and cuts off; or one of somebody else's, which is left alone.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amends_testbed::mariadb::MariaDb;
use amends_testbed::postgres::Postgres;
use amends_testbed::redis::Redis;
use anyhow::{Context as _, Result, bail, ensure};

/// What kind of server a store is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Redis.
    Redis,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
}

impl Kind {
    /// What its URLs begin with.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::MariaDb => "mysql",
        }
    }

    fn start(self) -> Result<Server> {
        Ok(match self {
            Self::Redis => Server::Redis(Redis::start()?),
            Self::Postgres => Server::Postgres(Postgres::start()?),
            Self::MariaDb => Server::MariaDb(MariaDb::start()?),
        })
    }
}

/// A server of the run's own.
#[derive(Debug)]
pub enum Server {
    /// Redis.
    Redis(Redis),
    /// PostgreSQL.
    Postgres(Postgres),
    /// MariaDB.
    MariaDb(MariaDb),
}

impl Server {
    /// The URL of its database.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
            Self::MariaDb(server) => server.url(),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn at(&self) -> SocketAddr {
        let port = match self {
            Self::Redis(server) => server.port(),
            Self::Postgres(server) => server.port(),
            Self::MariaDb(server) => server.port(),
        };
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// `kill -9`. What it has synced is all that the next start finds.
    pub fn kill(&mut self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Postgres(server) => server.kill(),
            Self::MariaDb(server) => server.kill(),
        }
    }

    /// Starts it again at the same place.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn restart(&mut self) -> Result<()> {
        match self {
            Self::Redis(server) => server.restart(),
            Self::Postgres(server) => server.restart(),
            Self::MariaDb(server) => server.restart(),
        }
    }

    /// Lets it stand still, or go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn pause(&self, pause: bool) -> Result<()> {
        match self {
            Self::Redis(server) => server.process().pause(pause),
            Self::Postgres(server) => server.pause(pause),
            Self::MariaDb(server) => server.pause(pause),
        }
    }

    /// Does to it what its administrators do now and then: takes its functions away, or ends the sessions of all engines.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub fn disturb(&self) -> Result<&'static str> {
        match self {
            Self::Redis(server) => {
                server.ask(&["FUNCTION", "FLUSH"])?;
                server.ask(&["SCRIPT", "FLUSH"])?;
                Ok("functions flushed")
            }
            Self::Postgres(server) => {
                server.ask(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IS NOT NULL AND pid <> pg_backend_pid()",
                )?;
                Ok("sessions ended")
            }
            Self::MariaDb(server) => {
                let ids = server.ask(
                    "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user LIKE 'amends%' OR user LIKE 'node-%'",
                )?;
                for id in ids.split(',').filter(|id| id.parse::<u64>().is_ok()) {
                    // One that has just ended by itself is no fault.
                    let _ = server.ask(&format!("KILL {id}"));
                }
                Ok("sessions ended")
            }
        }
    }
}

/// Servers of one kind, all of which end with the last clone.
#[derive(Debug, Clone)]
pub struct Servers {
    /// What they are.
    pub kind: Kind,
    /// Somebody else's.
    named: Option<String>,
    own: Arc<Mutex<Vec<Server>>>,
}

impl Servers {
    /// Servers of the run's own, none of which is started yet.
    #[must_use]
    pub fn own(kind: Kind) -> Self {
        Self { kind, named: None, own: Arc::default() }
    }

    /// Somebody else's server.
    #[must_use]
    pub fn named(kind: Kind, url: &str) -> Self {
        Self { kind, named: Some(url.to_owned()), own: Arc::default() }
    }

    /// The URL for a long run: what was named, or a fresh server.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn of_run(&self) -> Result<String> {
        match &self.named {
            Some(url) => Ok(url.clone()),
            None => self.fresh(),
        }
    }

    /// The URL of a server that nothing is in yet.
    ///
    /// # Errors
    /// If it cannot be started, or somebody else's was named: that one is not emptied.
    pub fn fresh(&self) -> Result<String> {
        let scheme = self.kind.scheme();
        ensure!(self.named.is_none(), "a single fault needs servers of its own: write --store {scheme}:");
        let server = self.kind.start()?;
        let url = server.url();
        self.servers().push(server);
        Ok(url)
    }

    /// Whether the servers are the run's own, so that it may end them.
    #[must_use]
    pub fn are_own(&self) -> bool {
        self.named.is_none()
    }

    /// Does something to the server that was started last. It blocks.
    ///
    /// # Errors
    /// If there is none, and whatever `act` fails with.
    pub fn with_last<T>(&self, act: impl FnOnce(&mut Server) -> Result<T>) -> Result<T> {
        tokio::task::block_in_place(|| act(self.servers().last_mut().context("no server was started")?))
    }

    /// As [`Servers::with_last`], if that is a Redis server.
    ///
    /// # Errors
    /// As [`Servers::with_last`], and if it is another one.
    pub fn with_redis<T>(&self, act: impl FnOnce(&mut Redis) -> Result<T>) -> Result<T> {
        self.with_last(|server| match server {
            Server::Redis(redis) => act(redis),
            Server::Postgres(_) | Server::MariaDb(_) => bail!("this happens to Redis alone"),
        })
    }

    /// Runs SQL on the server that was started last, and gives its rows, a line each. It blocks, and longest while the server stands still;
    /// others may do something to the server meanwhile.
    ///
    /// # Errors
    /// If there is none, it cannot be reached, refuses, or has no SQL.
    pub fn sql(&self, sql: &str) -> Result<String> {
        let port = self.with_last(|server| Ok(server.at().port()))?;
        tokio::task::block_in_place(|| match self.kind {
            Kind::Redis => bail!("Redis has no SQL"),
            Kind::Postgres => Postgres::ask_at(port, sql),
            Kind::MariaDb => MariaDb::ask_at(port, sql),
        })
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Server>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
