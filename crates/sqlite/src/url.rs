//! `sqlite://` URLs.

use std::path::PathBuf;

use amends_store::{Error, Kind};

/// The file that a store URL names: `sqlite://amends.db` is `amends.db` in the current folder,
/// `sqlite:///var/lib/amends.db` an absolute path. Nothing in it is decoded: a path is taken as it is written.
///
/// # Errors
/// [`Kind::Refused`] for another scheme, for a URL without a path, and for `?` options, of which there are none.
pub fn path_from_url(url: &str) -> Result<PathBuf, Error> {
    let refuse = |why: &str| {
        let message =
            format!("the store URL {url:?} {why}; write sqlite://amends.db or sqlite:///an/absolute/path.db");
        Err(Error::new(Kind::Refused, message))
    };
    let Some(path) = url.strip_prefix("sqlite://") else {
        return refuse("does not begin with sqlite://");
    };
    if path.is_empty() || path.ends_with('/') {
        return refuse("names no file");
    }
    if path.contains('?') {
        return refuse("has options after \"?\", but sqlite:// takes none");
    }
    if path == ":memory:" {
        return refuse("asks for a database in memory, which would lose everything with the process");
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_relative_or_an_absolute_path() {
        for (url, path) in [
            ("sqlite://amends.db", "amends.db"),
            ("sqlite://./data/amends.db", "./data/amends.db"),
            ("sqlite:///var/lib/amends.db", "/var/lib/amends.db"),
            ("sqlite://with space%20.db", "with space%20.db"),
        ] {
            assert_eq!(path_from_url(url).unwrap(), PathBuf::from(path), "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_a_remedy() {
        for url in [
            "postgres://x",
            "amends.db",
            "sqlite:amends.db",
            "sqlite://",
            "sqlite:///tmp/",
            "sqlite://a?mode=ro",
            "sqlite://:memory:",
        ] {
            let error = path_from_url(url).unwrap_err();
            assert_eq!(error.kind, Kind::Refused);
            assert!(error.message.contains(url) && error.message.contains("sqlite://amends.db"), "{error}");
        }
    }
}
