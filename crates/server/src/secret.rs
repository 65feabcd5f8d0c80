//! References to secrets: `env:NAME` or `file:PATH`, never the secret itself.

use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

/// The most bytes a secret's file may have; more is surely the wrong file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// In an environment variable.
    Env(String),
    /// In a file; a line break at its end does not count.
    File(PathBuf),
}

impl SecretRef {
    /// Reads `env:NAME` or `file:PATH`. `None` if the text is neither; it may then be a secret, and is not to be shown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let file = || text.strip_prefix("file:").map(|path| Self::File(path.into()));
        text.strip_prefix("env:").map(|name| Self::Env(name.to_owned())).or_else(file)
    }

    /// The secret as it is now. `env` reads an environment variable.
    ///
    /// # Errors
    /// Where it should have come from, and why it cannot be had; never the secret.
    pub fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
        match self {
            Self::Env(name) => {
                env(name).ok_or_else(|| format!("the environment variable {name} is not set (or not UTF-8)"))
            }
            Self::File(path) => {
                let cannot =
                    |error: std::io::Error| format!("the file {} cannot be read: {error}", path.display());
                let mut text = String::new();
                let file = std::fs::File::open(path).map_err(cannot)?;
                // The limit also ends the reading of a device that never ends.
                file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
                if text.len() as u64 > FILE_BYTES_MAX {
                    return Err(format!("the file {} has more than {FILE_BYTES_MAX} bytes", path.display()));
                }
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(
                "a secret must not stand in the file itself; write env:NAME or file:PATH",
            )
        })
    }
}
