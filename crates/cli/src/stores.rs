//! Which store a URL means. This is the only place of the product that picks one.

use std::path::PathBuf;

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

    /// What kind of store it is, for reports.
    pub(crate) fn kind(&self) -> &'static str {
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
