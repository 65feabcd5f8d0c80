//! Configured values that may be secret: where they come from, and reading them without ever showing them.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer};

/// The most bytes a file with a configured value may have; more is surely the wrong file.
pub const VALUE_BYTES_MAX: u64 = 64 * 1024;

/// Reads an environment variable; given from outside so that nothing here reads the process's own behind one's back.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A configured value: `env:NAME`, `file:PATH`, or the text itself. Its `Debug` shows where it comes from, never what it is.
#[derive(Clone)]
pub enum Value {
    /// The value of an environment variable.
    Env(String),
    /// The content of a file, without the line break at its end.
    File(PathBuf),
    /// The text in the configuration.
    Literal(SecretString),
}

impl Value {
    /// Reads `env:NAME`, `file:PATH` or a literal.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(path.into())
        } else {
            Self::Literal(text.into())
        }
    }

    /// The value as it is now. A variable or a file may differ the next time.
    ///
    /// # Errors
    /// Where it should have come from and why it cannot be had, in plain words; never the value.
    pub(crate) fn resolve(&self, env: &EnvLookup) -> Result<SecretString, String> {
        match self {
            Self::Literal(text) => Ok(text.clone()),
            Self::Env(name) => env(name).map(SecretString::from).ok_or_else(|| {
                format!("the environment variable {name} is not set (or not UTF-8): set it and restart, or use file:PATH")
            }),
            Self::File(path) => read(path).map_err(|why| format!("the file {} {why}", path.display())),
        }
    }
}

fn read(path: &Path) -> Result<SecretString, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    // The limit also ends the reading of a device or a pipe that never ends.
    file.take(VALUE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > VALUE_BYTES_MAX {
        return Err(format!("has more than {VALUE_BYTES_MAX} bytes: is it the right one?"));
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).into())
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Literal(_) => f.write_str("[not shown]"),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Env(a), Self::Env(b)) => a == b,
            (Self::File(a), Self::File(b)) => a == b,
            (Self::Literal(a), Self::Literal(b)) => a.expose_secret() == b.expose_secret(),
            (Self::Env(_) | Self::File(_) | Self::Literal(_), _) => false,
        }
    }
}

impl Eq for Value {}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> EnvLookup {
        Arc::new(|name| (name == "TOKEN").then(|| "canary".to_owned()))
    }

    #[test]
    fn values_come_from_where_they_say() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("token");
        std::fs::write(&path, "from a file\r\n").expect("written");
        for (text, expected) in [
            ("env:TOKEN".to_owned(), "canary"),
            (format!("file:{}", path.display()), "from a file"),
            ("as it stands".to_owned(), "as it stands"),
        ] {
            let value = Value::parse(&text).resolve(&env()).expect("resolved");
            assert_eq!(value.expose_secret(), expected);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let reason = |text: &str| Value::parse(text).resolve(&env()).expect_err("missing");
        assert!(reason("env:NONE").contains("variable NONE is not set"));
        assert!(reason("file:/nonexistent/token").starts_with("the file /nonexistent/token cannot be read"));
        assert!(reason("file:/dev/zero").contains("more than 65536 bytes"));
    }

    #[test]
    fn debug_shows_no_literal() {
        assert_eq!(format!("{:?}", Value::parse("canary")), "[not shown]");
        assert_eq!(format!("{:?}", Value::parse("env:TOKEN")), "env:TOKEN");
    }
}
