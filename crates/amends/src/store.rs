//! Which store a URL means, among those that this build has.

use std::path::PathBuf;
use std::sync::Arc;

use amends_store::locks::Locks;
use amends_store::{Error, Kind, Store};

/// A store, the locks beside it, and what an engine on it has to know.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) locks: Arc<dyn Locks>,
    /// Several engines may share it.
    pub(crate) is_shared: bool,
}

/// Opens what a URL names. What the URL says is not repeated beyond its scheme: it may hold a password. `data`: where this node keeps what it
/// saw of a store in Redis.
pub(crate) async fn open(url: &str, data: Option<PathBuf>) -> Result<Opened, Error> {
    let Some((scheme, _)) = url.split_once(':') else {
        return Err(refused("the store is not given as a URL; write sqlite://amends.db, for example"));
    };
    match scheme {
        "sqlite" => sqlite(url).await,
        "postgres" | "postgresql" => postgres(url).await,
        "mysql" | "mariadb" => mysql(url).await,
        "redis" | "rediss" => redis(url, data).await,
        "memory" => memory(),
        _ => Err(refused(
            "the store's URL has an unknown scheme; sqlite, postgres, mysql, redis and memory are known",
        )),
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(Kind::Refused, message)
}

#[allow(dead_code, reason = "used by each kind that a build leaves out")]
fn left_out(scheme: &str, feature: &str) -> Error {
    refused(format!(
        "{scheme}:// is not in this build: add `features = [\"{feature}\"]` to the dependency `amends`"
    ))
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str) -> Result<Opened, Error> {
    let path = amends_sqlite::path_from_url(url)?;
    // It blocks while it opens and checks the file.
    let opened = tokio::task::spawn_blocking(|| {
        amends_sqlite::SqliteStore::open(path, amends_sqlite::Options::default())
    });
    let opened =
        opened.await.map_err(|error| refused(format!("the store broke while it was opened: {error}")))?;
    let store = Arc::new(opened?);
    Ok(Opened { store: store.clone(), locks: store, is_shared: false })
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_: &str) -> Result<Opened, Error> {
    Err(left_out("sqlite", "sqlite"))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Opened, Error> {
    let store = Arc::new(amends_postgres::PostgresStore::open(url).await?);
    Ok(Opened { store: store.clone(), locks: store, is_shared: true })
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str) -> Result<Opened, Error> {
    Err(left_out("postgres", "postgres"))
}

#[cfg(feature = "mysql")]
async fn mysql(url: &str) -> Result<Opened, Error> {
    let store = Arc::new(amends_mysql::MySqlStore::open(url).await?);
    Ok(Opened { store: store.clone(), locks: store, is_shared: true })
}

#[cfg(not(feature = "mysql"))]
async fn mysql(_: &str) -> Result<Opened, Error> {
    Err(left_out("mysql", "mysql"))
}

#[cfg(feature = "redis")]
async fn redis(url: &str, data: Option<PathBuf>) -> Result<Opened, Error> {
    use amends_redis::{Options, RedisLocks, RedisStore, StoreOptions};
    let mut options = StoreOptions { data, wait: None };
    let server = options.read_url(url)?;
    let store = RedisStore::open(url, options).await?;
    let locks = RedisLocks::connect(&server, Options::default()).await;
    let locks = locks.map_err(|error| Error::new(Kind::Unavailable, error.message))?;
    // The server syncs once for all calls that came while it was busy: more on their way wait less, each for one sync.
    Ok(Opened { store: Arc::new(store), locks: Arc::new(locks), is_shared: true })
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &str, _: Option<PathBuf>) -> Result<Opened, Error> {
    Err(left_out("redis", "redis"))
}

#[cfg(feature = "memory")]
fn memory() -> Result<Opened, Error> {
    Ok(Opened {
        store: Arc::new(amends_store::Memory::new()),
        locks: Arc::new(amends_store::locks::MemoryLocks::new()),
        is_shared: false,
    })
}

#[cfg(not(feature = "memory"))]
fn memory() -> Result<Opened, Error> {
    Err(left_out("memory", "memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_that_names_no_store_is_refused_without_its_password() {
        for url in ["amends.db", "oracle://me:hunter2@host/db", ""] {
            let error = open(url, None).await.err().unwrap();
            assert_eq!(error.kind, Kind::Refused);
            assert!(!error.message.contains("hunter2"), "{error}");
        }
        #[cfg(not(feature = "postgres"))]
        {
            let error = open("postgres://me:hunter2@host/db", None).await.err().unwrap();
            assert!(error.message.contains("features = [\"postgres\"]"), "{error}");
        }
    }
}
