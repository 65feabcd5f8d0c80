//! `amends.toml`: what `serve` is told, composed of what each part of the product can be told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use amends_core::definition::parse_duration;
use amends_participants::ParticipantConfig;
use amends_server::ServerConfig;
use serde::{Deserialize, Deserializer};

use crate::exit::Failure;
use crate::toml_error;

/// What is read when no file is named, if it exists.
const DEFAULT_FILE: &str = "amends.toml";

/// The default data folder, in the current one.
const DEFAULT_DATA: &str = "amends-state";

/// The default store.
const DEFAULT_STORE: &str = "sqlite://amends.db";

/// `amends.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) server: ServerConfig,
    pub(crate) store: StoreConfig,
    pub(crate) redis: Option<RedisConfig>,
    pub(crate) participants: BTreeMap<String, ParticipantConfig>,
}

/// `[redis]`: a server whose compensation log is scanned beside the engine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisConfig {
    /// The server, or any node of a cluster; or `env:NAME` or `file:PATH`, where it is. It may hold a password: it is not shown.
    pub(crate) url: String,
    /// How often what is due is looked for.
    #[serde(default = "scan_interval", deserialize_with = "duration")]
    pub(crate) scan_interval: Duration,
}

impl std::fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConfig").field("scan_interval", &self.scan_interval).finish_non_exhaustive()
    }
}

fn scan_interval() -> Duration {
    Duration::from_secs(30)
}

/// `[store]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreConfig {
    /// Which store: `sqlite://` and a path, `redis://` and a server, or `postgres://` or `mysql://` and a database; or `env:NAME` or
    /// `file:PATH`, where its URL is, for it may hold a password.
    pub(crate) url: String,
    /// Where the node keeps its name, and what it saw of a store that it shares. The embedded store needs no such folder.
    pub(crate) data: PathBuf,
    /// How long journal and payload of ended sagas are kept.
    #[serde(deserialize_with = "duration")]
    pub(crate) retention: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: DEFAULT_STORE.to_owned(),
            data: DEFAULT_DATA.into(),
            retention: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Duration::from_millis).map_err(serde::de::Error::custom)
}

impl Config {
    /// Reads the file named, else `amends.toml` in the current folder if there is one, else takes every default.
    pub(crate) fn load(named: Option<&Path>) -> Result<(Self, Option<PathBuf>), Failure> {
        let file = match named {
            Some(file) => file.to_owned(),
            None if Path::new(DEFAULT_FILE).is_file() => DEFAULT_FILE.into(),
            None => return Ok((Self::default(), None)),
        };
        let text = std::fs::read_to_string(&file).map_err(|e| {
            Failure::usage(
                format!("the configuration {} cannot be read: {e}", file.display()),
                "check --config (or AMENDS_CONFIG); without it ./amends.toml or the defaults are used",
            )
        })?;
        let config = Self::read(&text, &file.display().to_string())?;
        Ok((config, Some(file)))
    }

    fn read(text: &str, file: &str) -> Result<Self, Failure> {
        let config: Self = toml::from_str(text).map_err(|e| {
            let (place, reason, remedy) = toml_error::explain(&e, text);
            Failure::usage(format!("{file}: {place}{reason}"), remedy)
        })?;
        let problems: Vec<String> = config
            .participants
            .iter()
            .flat_map(|(name, participant)| participant.problems(name))
            .map(|problem| {
                format!(
                    "{file}: {}{problem}",
                    toml_error::line_of_key(text, &problem.participant, &problem.field)
                )
            })
            .collect();
        if problems.is_empty() {
            return Ok(config);
        }
        Err(Failure::usage(problems.join("\n       "), "correct what is named; the rest of the file is fine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::read(text, "amends.toml").expect_err(text).to_string()
    }

    #[test]
    fn an_empty_file_is_every_default() {
        let config = Config::read("", "f").unwrap();
        assert_eq!(config.server.listen, "127.0.0.1:7070");
        assert_eq!(config.store.url, "sqlite://amends.db");
        assert_eq!(config.store.retention, Duration::from_secs(30 * 24 * 3600));
        assert!(config.participants.is_empty());
    }

    #[test]
    fn the_documented_file_is_read() {
        let config = Config::read(
            r#"
            [server]
            listen = "127.0.0.1:7070"
            public_url = "http://127.0.0.1:7070"
            [store]
            url = "sqlite://amends.db"
            retention = "7d"
            [participants.payment]
            url = "http://127.0.0.1:9001/api"
            headers = { authorization = "env:PAYMENT_AUTH" }
            secret = "env:PAYMENT_SECRET"
            max_concurrency = 256
            "#,
            "f",
        )
        .unwrap();
        assert_eq!(config.store.retention, Duration::from_secs(7 * 24 * 3600));
        assert_eq!(config.participants["payment"].max_concurrency, 256);
    }

    #[test]
    fn mistakes_are_named_with_file_line_key_and_remedy() {
        for (text, expected) in [
            ("[server]\nlistn = \"x\"", "amends.toml: line 2, [server] listn: unknown field `listn`"),
            ("\n[sotre]\n", "amends.toml: line 2, [sotre]: unknown field `sotre`"),
            ("[store]\nretention = \"soon\"", "line 2, [store] retention: "),
            ("[store]\nurl = 5", "line 2, [store] url: invalid type"),
            ("[participants.a]\nheaders = {}", "line 1, [participants.a]: missing field `url`"),
            ("[participants.a]\nurl = \"ftp://x\"\n", "amends.toml: line 2, [participants.a] url: "),
            ("[server", "line 1"),
        ] {
            let said = refused(text);
            assert!(said.contains(expected), "{text}: {said}");
            assert!(said.contains("next: "), "{said}");
        }
    }

    /// The files that the parsers of `[server]` and `[participants]` are fuzzed with.
    #[test]
    fn every_file_of_the_corpus_is_read_or_refused_with_place_and_remedy() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
        let mut read = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let Ok(text) = String::from_utf8(bytes) else { continue };
            match Config::read(&text, "amends.toml") {
                Ok(_) => read += 1,
                Err(refused) => {
                    let said = refused.to_string();
                    assert!(said.contains("amends.toml: ") && said.contains("next: "), "{text}: {said}");
                    assert!(!said.contains("canary"), "{said}");
                }
            }
        }
        assert!(read >= 2, "{read} files were read");
    }

    #[test]
    fn secrets_in_the_file_are_refused_and_not_shown() {
        let said = refused("[participants.a]\nurl = \"http://a\"\nsecret = \"hunter2\"");
        assert!(said.contains("line 3, [participants.a] secret: ") && !said.contains("hunter2"), "{said}");
    }
}
