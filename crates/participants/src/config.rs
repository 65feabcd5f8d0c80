//! `[participants.NAME]` of `amends.toml`: where a participant is and how it is called.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::head;
use crate::reach::Reach;
use crate::signature::SigningKey;
use crate::value::{EnvLookup, Value};

/// Default of [`ParticipantConfig::max_concurrency`].
pub const MAX_CONCURRENCY: usize = 256;

/// Default of [`ParticipantConfig::answer_bytes_max`]: a fact is journalled and carried along, so it should be small.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Default of [`ParticipantConfig::keep_alive`].
///
/// A server that closes an idle connection just as a request is written to it makes an unknown outcome out of nothing. The
/// shortest common default of servers is 2 s (gunicorn; uvicorn, Node and Apache have 5 s, nginx 75 s): this is below it.
/// Under load connections are reused within milliseconds, so a longer time would win nothing.
pub const KEEP_ALIVE: Duration = Duration::from_millis(1_500);

/// Upper bound of [`ParticipantConfig::max_concurrency`]: each call in flight holds a socket.
const CONCURRENCY_LIMIT: usize = 65_536;

/// Upper bound of [`ParticipantConfig::answer_bytes_max`].
const ANSWER_BYTES_LIMIT: usize = 64 * 1024 * 1024;

/// One participant as configured.
///
/// Values that may be secret are not part of its `Debug`. Deserialising checks the shape; [`ParticipantConfig::problems`]
/// checks the content, apart from it because a parser's message may quote the line it stumbles over, secrets included.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// `http://` or `https://`, host, optionally port and a path, to which a definition's paths are appended. Or `redis://` or
    /// `rediss://`, for definitions that name Redis commands; with a password only as `env:NAME` or `file:PATH`, where the whole
    /// URL is.
    pub url: Url,
    /// Headers added to every request, by name. They win over a definition's.
    #[serde(default)]
    pub headers: BTreeMap<String, Value>,
    /// Signs calls and verifies callbacks; `env:` or `file:` only. `whsec_…` is base64, anything else is taken as it is.
    #[serde(default)]
    pub secret: Option<Value>,
    /// A PEM file with the certificate authorities to trust for this participant instead of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How many calls may be in flight at once.
    #[serde(default = "max_concurrency")]
    pub max_concurrency: usize,
    /// The most bytes an answer's body may have; a larger one is an unknown outcome.
    #[serde(default = "answer_bytes_max")]
    pub answer_bytes_max: usize,
    /// How long an idle connection is kept for reuse, such as `"1500ms"`. Keep it below the participant's own time-out for
    /// idle connections. `"0s"`: a new connection for every call.
    #[serde(default = "keep_alive", deserialize_with = "duration")]
    pub keep_alive: Duration,
}

impl ParticipantConfig {
    /// A participant at `url` with every default.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: Url(url.into()),
            headers: BTreeMap::new(),
            secret: None,
            ca_file: None,
            max_concurrency: MAX_CONCURRENCY,
            answer_bytes_max: ANSWER_BYTES_MAX,
            keep_alive: KEEP_ALIVE,
        }
    }

    /// Everything that is wrong with it, whatever variables and files hold. `name` is the participant's.
    #[must_use]
    pub fn problems(&self, name: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, reason: String| {
            problems.push(Problem { participant: name.to_owned(), field: field.to_owned(), reason });
        };
        match Reach::parse(&self.url.0) {
            Ok(Reach::Http(_)) => {}
            Ok(Reach::Driven(_)) => {
                let fields = [
                    ("headers", !self.headers.is_empty()),
                    ("secret", self.secret.is_some()),
                    ("ca_file", self.ca_file.is_some()),
                ];
                for (field, _) in fields.into_iter().filter(|(_, is_there)| *is_there) {
                    wrong(field, "is for participants over HTTP; what a server needs is in its url".into());
                }
            }
            Err(reason) => wrong("url", reason),
        }
        for header in self.headers.keys() {
            let field = format!("headers.{header}");
            match header.parse::<HeaderName>() {
                Err(_) => wrong(&field, "is no header name; letters, digits and - are".into()),
                Ok(parsed) if head::is_reserved(&parsed) => {
                    wrong(&field, "is set by amends itself; remove it".into());
                }
                Ok(_) => {}
            }
        }
        if matches!(self.secret, Some(Value::Literal(_))) {
            wrong("secret", "must not stand in the file itself; write env:NAME or file:PATH".into());
        }
        if !(1..=CONCURRENCY_LIMIT).contains(&self.max_concurrency) {
            wrong("max_concurrency", format!("must be between 1 and {CONCURRENCY_LIMIT}"));
        }
        if !(1..=ANSWER_BYTES_LIMIT).contains(&self.answer_bytes_max) {
            wrong("answer_bytes_max", format!("must be between 1 and {ANSWER_BYTES_LIMIT} (64 MiB)"));
        }
        problems
    }

    /// Reads the secret as it is now; `None` if none is configured.
    ///
    /// # Errors
    /// What is missing or unusable, in plain words; never the secret.
    pub(crate) fn signing_key(&self, env: &EnvLookup) -> Result<Option<SigningKey>, String> {
        let parse = |value: &Value| SigningKey::parse(&value.resolve(env)?);
        self.secret.as_ref().map(parse).transpose().map_err(|reason| format!("secret: {reason}"))
    }
}

/// A participant's URL as configured. Its `Debug` does not show it: one with a password is refused, and not echoed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Url(pub String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Reach::parse(&self.0) {
            Ok(reach) => write!(f, "{reach:?}"),
            Err(_) => f.write_str("[not a valid URL]"),
        }
    }
}

/// One thing that is wrong with a participant's configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[participants.{participant}] {field}: {reason}")]
pub struct Problem {
    /// The participant's name.
    pub participant: String,
    /// The field's name.
    pub field: String,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

fn max_concurrency() -> usize {
    MAX_CONCURRENCY
}

fn answer_bytes_max() -> usize {
    ANSWER_BYTES_MAX
}

fn keep_alive() -> Duration {
    KEEP_ALIVE
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| D::Error::custom("keep_alive: write a duration such as \"1500ms\" or \"4s\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ParticipantConfig, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn only_the_url_is_required() {
        let config = parse(r#"url = "http://127.0.0.1:9001/api""#).expect("valid");
        assert_eq!(config, ParticipantConfig::new("http://127.0.0.1:9001/api"));
        assert_eq!(config.max_concurrency, 256);
        assert!(config.problems("payment").is_empty());
    }

    #[test]
    fn every_field_is_read() {
        let config = parse(
            r#"url = "https://pay.example"
            headers = { authorization = "env:PAYMENT_AUTH", x-shop = "7" }
            secret = "file:/run/secrets/payment"
            ca_file = "/etc/ca.pem"
            max_concurrency = 8
            answer_bytes_max = 4096
            keep_alive = "4s""#,
        )
        .expect("valid");
        assert!(config.problems("payment").is_empty());
        assert_eq!(config.headers["authorization"], Value::Env("PAYMENT_AUTH".into()));
        assert_eq!(config.secret, Some(Value::File("/run/secrets/payment".into())));
        assert_eq!((config.max_concurrency, config.answer_bytes_max), (8, 4096));
        assert_eq!(config.keep_alive, Duration::from_secs(4));
    }

    #[test]
    fn unknown_fields_and_wrong_shapes_are_refused() {
        for (text, expected) in [
            ("url = \"http://a\"\nretries = 3", "unknown field `retries`"),
            ("secret = \"env:S\"", "missing field `url`"),
            ("url = \"http://a\"\nkeep_alive = \"soon\"", "write a duration such as"),
            ("url = \"http://a\"\nkeep_alive = \"-4s\"", "write a duration such as"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn everything_wrong_is_said_at_once_and_nothing_secret_is_shown() {
        let config = parse(
            r#"url = "https://user:canary@pay.example"
            headers = { "a b" = "canary", host = "x", Amends-Epoch = "1" }
            secret = "canary"
            max_concurrency = 0
            answer_bytes_max = 100000000"#,
        )
        .expect("the shape is right");
        let problems: Vec<String> = config.problems("payment").iter().map(ToString::to_string).collect();
        let all = problems.join("\n");
        for expected in [
            "[participants.payment] url: must not contain a user or password",
            "headers.a b: is no header name",
            "headers.host: is set by amends itself",
            "headers.Amends-Epoch: is set by amends itself",
            "secret: must not stand in the file itself; write env:NAME or file:PATH",
            "max_concurrency: must be between 1 and 65536",
            "answer_bytes_max: must be between 1 and 67108864",
        ] {
            assert!(all.contains(expected), "{expected} is missing in\n{all}");
        }
        assert_eq!(problems.len(), 7);
        assert!(!all.contains("canary") && !format!("{config:?}").contains("canary"));
    }
}
