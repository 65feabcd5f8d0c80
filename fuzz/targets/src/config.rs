//! `amends.toml`.

use std::collections::BTreeMap;
use std::sync::Arc;

use amends_core::definition::parse_duration;
use amends_participants::{ParticipantConfig, Participants};
use amends_server::ServerConfig;
use serde::Deserialize;

/// As the binary puts it together of what its parts can be told; the binary's own tests read the same corpus.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    server: ServerConfig,
    store: Store,
    participants: BTreeMap<String, ParticipantConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Store {
    url: String,
    retention: String,
}

/// What stands in files and must never be shown.
const CANARY: &str = "canary";

/// A configuration.
///
/// # Panics
/// If a parser does what it must not, or a message or a `Debug` shows what may be a secret.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(config) = toml::from_str::<Config>(text) else { return };
    let _ = (config.server.listen_address(), parse_duration(&config.store.retention), config.store.url.len());
    let env = |name: &str| (name.len() < 16).then(|| format!("{CANARY}-{name}"));
    if let Err(reason) = amends_server::Settings::new(&config.server, &env) {
        assert!(!reason.contains("canary-"), "a secret is shown: {reason}");
    }
    for (name, participant) in &config.participants {
        for problem in participant.problems(name) {
            let said = problem.to_string();
            assert!(said.contains("[participants.") && !said.contains("canary-"), "{said}");
        }
    }
    let settings =
        amends_participants::Settings { env: Arc::new(env), ..amends_participants::Settings::system(None) };
    if let Ok(participants) = Participants::new(config.participants, settings) {
        for state in participants.states() {
            assert!(!format!("{state:?}").contains("canary-"), "a secret is shown");
        }
    }
}
