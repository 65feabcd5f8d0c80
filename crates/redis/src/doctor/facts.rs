//! What a server says of itself.

use std::collections::BTreeMap;

use redis::Value;

use super::pairs;
use crate::client::text;

/// The settings that matter.
pub(super) const SETTINGS: &[&str] = &[
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "maxmemory-policy",
    "min-replicas-to-write",
    "busy-reply-threshold",
];

/// Settings as they are set, and the fields of `INFO`. What is not here, the server did not say.
#[derive(Debug, Default)]
pub(super) struct Facts {
    info: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
}

impl Facts {
    pub(super) fn read_info(&mut self, answer: &Value) {
        for line in text(answer).lines() {
            if let Some((name, value)) = line.trim_end().split_once(':') {
                self.info.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    pub(super) fn read_config(&mut self, answer: &Value) {
        for (name, value) in pairs(answer) {
            self.config.insert(text(name), text(value));
        }
    }

    pub(super) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// A setting; `field` is where `INFO` says the same.
    pub(super) fn setting(&self, name: &str, field: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str).or_else(|| self.info(field))
    }

    /// The version, as numbers that can be compared.
    pub(super) fn version(&self) -> Option<(u32, u32, u32)> {
        let mut parts = self.info("redis_version")?.split('.').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next().flatten().unwrap_or(0), parts.next().flatten().unwrap_or(0)))
    }
}
