//! Which store a URL means. This is the only place of the product that picks one.

use std::path::PathBuf;
use std::sync::Arc;

use amends_sqlite::SqliteStore;
use amends_store::{Kind, Store};

use crate::exit::Failure;

/// A store that this build can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// The embedded store, in this file.
    Sqlite(PathBuf),
}

impl StoreUrl {
    /// Reads a URL. What it says is not repeated in errors beyond its scheme: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        let example = "use --store sqlite://amends.db (or sqlite:///an/absolute/path.db)";
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(Failure::usage("the store is not given as a URL", example));
        };
        match scheme {
            "sqlite" => match amends_sqlite::path_from_url(url) {
                Ok(path) => Ok(Self::Sqlite(path)),
                Err(e) => Err(Failure::usage(e.message, example)),
            },
            "postgres" | "postgresql" | "mysql" | "mariadb" | "redis" | "rediss" => {
                Err(Failure::usage(format!("{scheme}:// is not in this build"), example))
            }
            _ => Err(Failure::usage("the store's URL has an unknown scheme", example)),
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        match self {
            Self::Sqlite(path) => {
                let path = path.clone();
                // It blocks while it opens and checks the file.
                let opened = tokio::task::spawn_blocking(|| {
                    SqliteStore::open(path, amends_sqlite::Options::default())
                });
                match opened.await {
                    Ok(Ok(store)) => Ok(Arc::new(store)),
                    Ok(Err(e)) => Err(not_opened(&e)),
                    Err(e) => Err(Failure::failed(
                        format!("the store broke while it was opened: {e}"),
                        "report this",
                    )),
                }
            }
        }
    }

    /// The node's name: the same after a restart, so that an engine takes its own sagas up again at once.
    pub(crate) fn node(&self) -> &'static str {
        match self {
            // One engine a file: there is nobody to be told apart from.
            Self::Sqlite(_) => "embedded",
        }
    }

    /// What kind of store it is, for reports.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
        }
    }
}

fn not_opened(error: &amends_store::Error) -> Failure {
    let next = match error.kind {
        Kind::Refused => "stop the other engine, or name another store with --store",
        Kind::Unwritable => "check the folder's permissions and the space on the disk",
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
        let later = StoreUrl::parse("postgres://user:hunter2@host/db").unwrap_err().to_string();
        assert!(later.contains("not in this build") && !later.contains("hunter2"), "{later}");
    }
}
