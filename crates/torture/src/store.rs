//! The stores that can be tortured. Another one joins with an arm in each method here.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// A store, as its URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// The embedded store: in this file, or in a fresh one in a temporary folder.
    Sqlite(Option<PathBuf>),
}

impl StoreUrl {
    /// Reads a URL: `sqlite:` (a fresh file in a temporary folder), or `sqlite://` and a path.
    ///
    /// # Errors
    /// If torture does not know the store.
    pub fn parse(url: &str) -> Result<Self> {
        match url.split_once(':') {
            Some(("sqlite", "" | "//")) => Ok(Self::Sqlite(None)),
            Some(("sqlite", path)) if path.starts_with("//") => {
                Ok(Self::Sqlite(Some(std::path::absolute(&path[2..])?)))
            }
            Some((scheme, _)) => {
                bail!("torture does not know the store {scheme}: yet; write sqlite: or sqlite://PATH")
            }
            None => bail!("{url:?} is no URL of a store; write sqlite: or sqlite://PATH"),
        }
    }

    /// The URL for the engine of a long run. `folder` is the run's own.
    #[must_use]
    pub fn of_run(&self, folder: &Path) -> String {
        match self {
            Self::Sqlite(Some(path)) => format!("sqlite://{}", path.display()),
            Self::Sqlite(None) => self.fresh(folder),
        }
    }

    /// The URL of a store that nothing is in yet, for a single fault. `folder` is the fault's own.
    #[must_use]
    pub fn fresh(&self, folder: &Path) -> String {
        match self {
            Self::Sqlite(_) => format!("sqlite://{}", folder.join("amends.db").display()),
        }
    }

    /// Where folders of single faults are made: on the filesystem that is to be tortured, where a store lies in one.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => path.as_deref().and_then(Path::parent),
        }
    }

    /// Whether the engine itself writes to a disk, so that the disk's faults are the engine's.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
        }
    }

    /// What it is called in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_stores() {
        assert_eq!(StoreUrl::parse("sqlite:").unwrap(), StoreUrl::Sqlite(None));
        let named = StoreUrl::parse("sqlite:///var/lib/t.db").unwrap();
        assert_eq!(named.of_run(Path::new("/elsewhere")), "sqlite:///var/lib/t.db");
        assert_eq!(named.fresh(Path::new("/elsewhere")), "sqlite:///elsewhere/amends.db");
        for wrong in ["", "postgres://x", "t.db"] {
            assert!(StoreUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
