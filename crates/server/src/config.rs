//! `[server]` of `amends.toml`: where the server listens, who may do what, and its limits.

use std::net::SocketAddr;
use std::time::Duration;

use amends_core::definition::parse_duration;
use serde::{Deserialize, Deserializer};

use crate::secret::SecretRef;

/// `[server]`, as written. [`crate::Settings::new`] checks the content.
///
/// ```
/// # use amends_server::{Role, ServerConfig};
/// let config: ServerConfig = toml::from_str(
///     r#"
///     listen = "0.0.0.0:7070"
///     tokens = [{ name = "ops", token = "env:AMENDS_OPS_TOKEN", role = "operator" }]
///     "#,
/// )?;
/// assert_eq!(config.tokens[0].role, Role::Operator);
/// assert_eq!(config.max_body_bytes, 1024 * 1024);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Address and port to listen on; port 0 takes any that is free. `localhost` counts as 127.0.0.1.
    pub listen: String,
    /// Where participants, and people's browsers, reach this server; default `http://` and the address listened on.
    pub public_url: Option<String>,
    /// Who may do what. Empty: everybody who reaches the server may do everything, which is why it then listens on
    /// loopback only.
    pub tokens: Vec<TokenConfig>,
    /// The most bytes a request's body may have.
    pub max_body_bytes: usize,
    /// How many connections are served at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request; also how long an idle connection is kept.
    #[serde(deserialize_with = "duration")]
    pub header_timeout: Duration,
    /// How long a client may take to send a body.
    #[serde(deserialize_with = "duration")]
    pub body_timeout: Duration,
    /// The longest `wait` of a submission; a longer one is cut to it.
    #[serde(deserialize_with = "duration")]
    pub max_wait: Duration,
    /// How long requests under way may take to finish when the server stops.
    #[serde(deserialize_with = "duration")]
    pub stop_within: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".into(),
            public_url: None,
            tokens: Vec::new(),
            // A saga's input is journalled and carried along: far less is usual, and documents belong elsewhere.
            max_body_bytes: 1024 * 1024,
            // Each is an open file, of which many systems allow a process 1,024 unless it asks for more.
            max_connections: 1024,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            max_wait: Duration::from_secs(60),
            stop_within: Duration::from_secs(10),
        }
    }
}

impl ServerConfig {
    /// The address to listen on.
    ///
    /// # Errors
    /// In plain words, if it is none.
    pub fn listen_address(&self) -> Result<SocketAddr, String> {
        let text = match self.listen.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.listen.clone(),
        };
        text.parse().map_err(|_| {
            format!(
                "`{}` is no address to listen on; write an IP address and a port, such as 127.0.0.1:7070",
                self.listen
            )
        })
    }

    /// Where participants reach the server, without a slash at its end. `bound` is the address it listens on.
    #[must_use]
    pub fn public_url(&self, bound: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{bound}"),
        }
    }
}

/// One of `tokens`: a name, the secret, and what it allows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Whose it is: what journals and audit records call whoever uses it.
    pub name: String,
    /// `env:NAME` or `file:PATH`; never the secret itself.
    pub token: SecretRef,
    /// What it allows.
    pub role: Role,
}

/// What a token allows; each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Submits sagas and acts on them.
    Operator,
    /// Registers definitions too.
    Admin,
}

impl Role {
    /// The word in `amends.toml`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Duration::from_millis).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_default() {
        let config: ServerConfig = toml::from_str("").unwrap();
        assert_eq!(config, ServerConfig::default());
        assert_eq!(config.listen_address().unwrap().to_string(), "127.0.0.1:7070");
    }

    #[test]
    fn a_whole_section_is_read() {
        let config: ServerConfig = toml::from_str(
            r#"
            listen = "localhost:0"
            public_url = "https://amends.example/"
            tokens = [{ name = "ops", token = "env:OPS", role = "operator" }, { name = "ci", token = "file:/run/ci", role = "admin" }]
            max_body_bytes = 4096
            max_connections = 10
            header_timeout = "5s"
            body_timeout = "1500ms"
            max_wait = "2m"
            stop_within = "3s"
            "#,
        )
        .unwrap();
        assert_eq!(config.listen_address().unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(config.public_url("127.0.0.1:1".parse().unwrap()), "https://amends.example");
        assert_eq!(config.tokens[0].role, Role::Operator);
        assert_eq!(config.body_timeout, Duration::from_millis(1_500));
        assert_eq!(config.max_wait, Duration::from_secs(120));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("listn = \"x\"", "unknown field `listn`"),
            ("max_wait = \"5\"", "`5` is no duration"),
            ("max_wait = 5", "expected a string"),
            ("tokens = [{ name = \"a\", token = \"env:A\", role = \"root\" }]", "unknown variant `root`"),
            ("tokens = [{ name = \"a\", token = \"hunter2\", role = \"viewer\" }]", "env:NAME or file:PATH"),
        ] {
            let error = toml::from_str::<ServerConfig>(text).unwrap_err().message().to_owned();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("hunter2"));
        }
    }
}
