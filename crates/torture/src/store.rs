//! The stores that can be tortured. Another one joins with an arm in each method here.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::servers::{Kind, Servers};

/// What can be written.
const KNOWN: &str = "write sqlite:, sqlite://PATH, redis:, postgres: or mysql:";

/// A store, as its URL names it.
#[derive(Debug, Clone)]
pub enum StoreUrl {
    /// The embedded store: in this file, or in a fresh one in a temporary folder.
    Sqlite(Option<PathBuf>),
    /// In a server that engines may share: one that is named, or fresh ones.
    Served(Servers),
}

impl StoreUrl {
    /// Reads a URL: `sqlite:` (a fresh file in a temporary folder), or `sqlite://` and a path; `redis:`, `postgres:` or `mysql:` (a fresh
    /// server), or one of them with `//` and an address.
    ///
    /// # Errors
    /// If torture does not know the store.
    pub fn parse(url: &str) -> Result<Self> {
        match url.split_once(':') {
            Some(("sqlite", "" | "//")) => Ok(Self::Sqlite(None)),
            Some(("sqlite", path)) if path.starts_with("//") => {
                Ok(Self::Sqlite(Some(std::path::absolute(&path[2..])?)))
            }
            Some((scheme, address)) => {
                let kind = [Kind::Redis, Kind::Postgres, Kind::MariaDb].into_iter();
                let Some(kind) = kind.into_iter().find(|kind| kind.scheme() == scheme) else {
                    bail!("torture does not know the store {scheme}:; {KNOWN}");
                };
                Ok(Self::Served(match address {
                    "" | "//" => Servers::own(kind),
                    _ => Servers::named(kind, url),
                }))
            }
            None => bail!("{url:?} is no URL of a store; {KNOWN}"),
        }
    }

    /// The URL for the engine of a long run. `folder` is the run's own.
    ///
    /// # Errors
    /// If a server cannot be started.
    pub fn of_run(&self, folder: &Path) -> Result<String> {
        match self {
            Self::Sqlite(Some(path)) => Ok(format!("sqlite://{}", path.display())),
            Self::Sqlite(None) => self.fresh(folder),
            Self::Served(servers) => servers.of_run(),
        }
    }

    /// The URL of a store that nothing is in yet, for a single fault. `folder` is the fault's own.
    ///
    /// # Errors
    /// If a server cannot be started.
    pub fn fresh(&self, folder: &Path) -> Result<String> {
        match self {
            Self::Sqlite(_) => Ok(format!("sqlite://{}", folder.join("amends.db").display())),
            Self::Served(servers) => servers.fresh(),
        }
    }

    /// Where folders of single faults are made: on the filesystem that is to be tortured, where a store lies in one.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => path.as_deref().and_then(Path::parent),
            Self::Served(_) => None,
        }
    }

    /// Whether the engine itself writes to a disk, so that the disk's faults are the engine's.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Served(_) => false,
        }
    }

    /// The servers that a run may torture as well, if there are any.
    #[must_use]
    pub fn servers(&self) -> Option<&Servers> {
        match self {
            Self::Sqlite(_) => None,
            Self::Served(servers) => servers.are_own().then_some(servers),
        }
    }

    /// What it is called in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Served(servers) => servers.kind.scheme(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_stores() {
        assert!(matches!(StoreUrl::parse("sqlite:").unwrap(), StoreUrl::Sqlite(None)));
        let named = StoreUrl::parse("sqlite:///var/lib/t.db").unwrap();
        assert_eq!(named.of_run(Path::new("/elsewhere")).unwrap(), "sqlite:///var/lib/t.db");
        assert_eq!(named.fresh(Path::new("/elsewhere")).unwrap(), "sqlite:///elsewhere/amends.db");
        let named = StoreUrl::parse("redis://127.0.0.1:7/0").unwrap();
        assert_eq!(named.of_run(Path::new("/")).unwrap(), "redis://127.0.0.1:7/0");
        assert!(named.fresh(Path::new("/")).is_err() && named.servers().is_none());
        for wrong in ["", "oracle://x", "t.db"] {
            assert!(StoreUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
