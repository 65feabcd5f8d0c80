//! Which store a URL means. This is the only place of the product that picks one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use amends_mysql::{MySqlStore, MySqlUrl};
use amends_postgres::PostgresStore;
use amends_redis::{RedisLocks, RedisStore, StoreOptions};
use amends_server::SecretRef;
use amends_sqlite::SqliteStore;
use amends_store::locks::Locks;
use amends_store::{Kind, Store};

use crate::exit::Failure;
use crate::identity::Identity;

/// A store that this build can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// The embedded store, in this file.
    Sqlite(PathBuf),
    /// A Redis server, or a primary with replicas, that engines may share.
    Redis(ServerUrl),
    /// A database in a PostgreSQL server, that engines may share.
    Postgres(ServerUrl),
    /// A database in a server of MariaDB or MySQL, that engines may share.
    MySql(ServerUrl),
}

/// The URL of a server, which may hold a password: it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl(String);

impl std::fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerUrl")
    }
}

impl ServerUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A URL as it is given, or read from where `env:NAME` or `file:PATH` says.
///
/// # Errors
/// Where it should have come from and why it cannot be had; `what` says which URL.
pub(crate) fn plain_url(text: &str, what: &str) -> Result<String, Failure> {
    match SecretRef::parse(text) {
        None => Ok(text.to_owned()),
        Some(reference) => reference.resolve(&|name| std::env::var(name).ok()).map_err(|e| {
            Failure::usage(
                format!("{what}: {e}"),
                "give a URL, env:NAME, or file:PATH of a file that holds it",
            )
        }),
    }
}

impl StoreUrl {
    /// Reads a URL, or where one is: `env:NAME` or `file:PATH`. What it says is not repeated in errors beyond its scheme: it may hold a
    /// password.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        let url = &plain_url(url, "the store's URL")?;
        let example = "use --store sqlite://amends.db (or sqlite:///an/absolute/path.db)";
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(Failure::usage("the store is not given as a URL", example));
        };
        match scheme {
            "sqlite" => match amends_sqlite::path_from_url(url) {
                Ok(path) => Ok(Self::Sqlite(path)),
                Err(e) => Err(Failure::usage(e.message, example)),
            },
            "redis" | "rediss" => match StoreOptions::default().read_url(url) {
                Ok(_) => Ok(Self::Redis(ServerUrl(url.to_owned()))),
                Err(e) => Err(Failure::usage(e.message, "use --store redis://127.0.0.1:6379/0")),
            },
            "postgres" | "postgresql" => match PostgresStore::read_url(url) {
                Ok(_) => Ok(Self::Postgres(ServerUrl(url.to_owned()))),
                Err(e) => Err(Failure::usage(e.message, "use --store postgres://user@127.0.0.1:5432/amends")),
            },
            "mysql" | "mariadb" => match MySqlUrl::read(url) {
                Ok(_) => Ok(Self::MySql(ServerUrl(url.to_owned()))),
                Err(e) => Err(Failure::usage(e.message, "use --store mysql://user@127.0.0.1:3306/amends")),
            },
            _ => Err(Failure::usage("the store's URL has an unknown scheme", example)),
        }
    }

    /// Opens it. `data`: where this node keeps what it saw of a store that it shares.
    pub(crate) async fn open(&self, data: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
        match self {
            Self::Sqlite(path) => Ok(open_sqlite(path).await?),
            Self::Redis(url) => {
                let options = StoreOptions { data: data.map(Path::to_owned), wait: None };
                match RedisStore::open(url.as_str(), options).await {
                    Ok(store) => Ok(Arc::new(store)),
                    Err(e) => Err(not_opened(&e, REFUSED)),
                }
            }
            Self::Postgres(url) => Ok(open_postgres(url).await?),
            Self::MySql(url) => Ok(open_mysql(url).await?),
        }
    }

    /// Opens it, and the locks beside it: in the same file, or on the same server.
    pub(crate) async fn open_with_locks(
        &self,
        data: Option<&Path>,
    ) -> Result<(Arc<dyn Store>, Arc<dyn Locks>), Failure> {
        match self {
            Self::Sqlite(path) => {
                let store = open_sqlite(path).await?;
                Ok((store.clone(), store))
            }
            Self::Postgres(url) => {
                let store = open_postgres(url).await?;
                Ok((store.clone(), store))
            }
            Self::MySql(url) => {
                let store = open_mysql(url).await?;
                Ok((store.clone(), store))
            }
            Self::Redis(url) => {
                let store = self.open(data).await?;
                let remedy = "`amends redis doctor` looks at the server";
                let server = StoreOptions::default().read_url(url.as_str());
                let server = server.map_err(|e| Failure::usage(e.message, remedy))?;
                let locks = RedisLocks::connect(&server, amends_redis::Options::default()).await;
                Ok((store, Arc::new(locks.map_err(|e| Failure::failed(e.message, remedy))?)))
            }
        }
    }

    /// Says, for a person, that what the store has lost is lost. Gives the store's new epoch.
    pub(crate) async fn accept_loss(&self, data: &Path, reason: &str) -> Result<u64, Failure> {
        match self {
            Self::Sqlite(_) | Self::Postgres(_) | Self::MySql(_) => Err(Failure::usage(
                "this store notices no loss, so there is none to accept",
                "name a store in Redis with --store",
            )),
            Self::Redis(url) => {
                let options = StoreOptions { data: Some(data.to_owned()), wait: None };
                let by = std::env::var("USER").unwrap_or_default();
                let accepted = RedisStore::accept_loss(url.as_str(), options, reason, &by).await;
                accepted.map_err(|e| Failure::failed(e.message, "`amends doctor` looks at the store"))
            }
        }
    }

    /// Who this node is: the same after a restart, so that an engine takes its own sagas up again at once.
    pub(crate) fn identity(&self, data: &Path) -> Result<Identity, Failure> {
        match self {
            // One engine a file: there is nobody to be told apart from.
            Self::Sqlite(_) => Ok(Identity::embedded()),
            Self::Redis(_) | Self::Postgres(_) | Self::MySql(_) => Identity::in_folder(data),
        }
    }

    /// What kind of store it is, for reports.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Redis(_) => "redis",
            Self::Postgres(_) => "postgres",
            Self::MySql(_) => "mysql",
        }
    }
}

/// The section of a configuration that gives a server a data folder of its own, below this one.
pub(crate) fn data_folder(folder: &Path) -> String {
    let path = toml::Value::from(folder.join("state").display().to_string());
    format!("[store]\ndata = {path}\n")
}

async fn open_sqlite(path: &Path) -> Result<Arc<SqliteStore>, Failure> {
    let path = path.to_owned();
    // It blocks while it opens and checks the file.
    let opened =
        tokio::task::spawn_blocking(|| SqliteStore::open(path, amends_sqlite::Options::default())).await;
    match opened {
        Ok(Ok(store)) => Ok(Arc::new(store)),
        Ok(Err(e)) => Err(not_opened(&e, "stop the other engine, or name another store with --store")),
        Err(e) => Err(Failure::failed(format!("the store broke while it was opened: {e}"), "report this")),
    }
}

async fn open_postgres(url: &ServerUrl) -> Result<Arc<PostgresStore>, Failure> {
    match PostgresStore::open(url.as_str()).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(e) => Err(not_opened(&e, REFUSED)),
    }
}

async fn open_mysql(url: &ServerUrl) -> Result<Arc<MySqlStore>, Failure> {
    match MySqlStore::open(url.as_str()).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(e) => Err(not_opened(&e, REFUSED)),
    }
}

/// What to do when a server that engines share is refused: the message says what is wrong with it.
const REFUSED: &str = "do what it says, or name another store with --store";

fn not_opened(error: &amends_store::Error, refused: &'static str) -> Failure {
    let next = match error.kind {
        Kind::Refused => refused,
        Kind::Unwritable => {
            "check the folder's permissions, the space on the disk, and what the message names"
        }
        Kind::Corrupt => "keep a copy of the files before anything else is tried",
        Kind::Unavailable | Kind::Indeterminate => "try again in a moment",
    };
    Failure::failed(error.message.clone(), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_stores() {
        let sqlite = |path: &str| StoreUrl::Sqlite(path.into());
        assert_eq!(StoreUrl::parse("sqlite://amends.db").unwrap(), sqlite("amends.db"));
        assert_eq!(StoreUrl::parse("sqlite:///var/lib/a.db").unwrap(), sqlite("/var/lib/a.db"));
        for wrong in ["", "amends.db", "sqlite://", "sqlite:///tmp/", "oracle://x"] {
            assert!(StoreUrl::parse(wrong).is_err(), "{wrong}");
        }
        let redis = StoreUrl::parse("redis://user:hunter2@host:6379/0?wait=1").unwrap();
        assert_eq!(redis.kind(), "redis");
        assert!(!format!("{redis:?}").contains("hunter2"), "{redis:?}");
        assert!(StoreUrl::parse("redis://host?wait=many").is_err());
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("url");
        std::fs::write(&secret, "redis://user:hunter2@host:6379/0?wait=1\n").unwrap();
        assert_eq!(StoreUrl::parse(&format!("file:{}", secret.display())).unwrap(), redis);
        let missing = StoreUrl::parse("env:AMENDS_TEST_NOT_SET").unwrap_err().to_string();
        assert!(missing.contains("AMENDS_TEST_NOT_SET is not set"), "{missing}");
        let postgres = StoreUrl::parse("postgres://user:hunter2@host:5432/db").unwrap();
        assert_eq!(postgres.kind(), "postgres");
        assert!(!format!("{postgres:?}").contains("hunter2"), "{postgres:?}");
        assert!(StoreUrl::parse("postgres://host").is_err());
        for scheme in ["mysql", "mariadb"] {
            let mysql = StoreUrl::parse(&format!("{scheme}://user:hunter2@host:3306/db")).unwrap();
            assert_eq!(mysql.kind(), "mysql");
            assert!(!format!("{mysql:?}").contains("hunter2"), "{mysql:?}");
        }
        for wrong in ["host", "user:hunter2@host", "user:hunter2@host/db?require_ssl=true"] {
            let error = StoreUrl::parse(&format!("mysql://{wrong}")).unwrap_err().to_string();
            assert!(error.contains("mysql://user:password@host") && !error.contains("hunter2"), "{error}");
        }
    }
}
