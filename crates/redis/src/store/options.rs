//! How a store is opened: its URL, and where its node keeps what it saw.

use std::path::PathBuf;
use std::time::Duration;

use amends_core::definition::parse_duration;
use amends_store::{Error, Kind};

/// The most replicas that can be waited for: more than anybody runs.
const REPLICAS_MAX: u32 = 16;

/// The longest wait, in milliseconds: below the time in which the client expects an answer.
const WAIT_MS_MAX: u64 = 4_000;

/// How long replicas are waited for unless the URL says otherwise.
const WAIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Settings of a store in Redis.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// The folder in which the node keeps the highest mark it saw, so that a store that went back in time is noticed after a restart too. It
    /// is made if needed. `None`: the mark is kept in memory alone.
    pub data: Option<PathBuf>,
    /// Replicas that must have a commit before it is answered.
    pub wait: Option<Wait>,
}

/// Replicas to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// How many.
    pub replicas: u32,
    /// How long at most.
    pub timeout: Duration,
}

impl StoreOptions {
    /// Takes `wait` and `wait_timeout` out of a URL: `redis://host:6379/0?wait=1&wait_timeout=500ms`. Gives the URL for the client.
    ///
    /// # Errors
    /// [`Kind::Refused`] for a value that is none; no error repeats the URL.
    pub fn read_url(&mut self, url: &str) -> Result<String, Error> {
        let Some((base, query)) = url.split_once('?') else { return Ok(url.to_owned()) };
        let (mut kept, mut replicas, mut timeout) = (Vec::new(), None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("wait", value)) => {
                    let number = value.parse().ok().filter(|number| (1..=REPLICAS_MAX).contains(number));
                    replicas = Some(
                        number.ok_or_else(|| refused("wait", value, "a number of replicas from 1 to 16"))?,
                    );
                }
                Some(("wait_timeout", value)) => {
                    let ms = parse_duration(value).ok().filter(|ms| (1..=WAIT_MS_MAX).contains(ms));
                    timeout =
                        Some(ms.ok_or_else(|| {
                            refused("wait_timeout", value, "a time up to 4s, such as 500ms")
                        })?);
                }
                _ => kept.push(part),
            }
        }
        self.wait = match (replicas, timeout) {
            (Some(replicas), timeout) => {
                Some(Wait { replicas, timeout: timeout.map_or(WAIT_TIMEOUT, Duration::from_millis) })
            }
            (None, Some(_)) => return Err(refused("wait_timeout", "alone", "a number of replicas: wait=1")),
            (None, None) => None,
        };
        let query = kept.join("&");
        Ok(if query.is_empty() { base.to_owned() } else { format!("{base}?{query}") })
    }
}

fn refused(name: &str, value: &str, wanted: &str) -> Error {
    let value: String = value.chars().take(40).collect();
    Error::new(Kind::Refused, format!("the store's URL: {name} is {value:?}; write {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_to_wait_for_are_read_from_the_url() {
        for (url, rest, wait) in [
            ("redis://h:1/0", "redis://h:1/0", None),
            ("redis://h?wait=2", "redis://h", Some((2, 500))),
            ("redis://h?a=b&wait=1&wait_timeout=2s", "redis://h?a=b", Some((1, 2_000))),
        ] {
            let mut options = StoreOptions::default();
            assert_eq!(options.read_url(url).unwrap(), rest);
            let wait = wait.map(|(replicas, ms)| Wait { replicas, timeout: Duration::from_millis(ms) });
            assert_eq!(options.wait, wait, "{url}");
        }
        for wrong in
            ["?wait=0", "?wait=x", "?wait=1&wait_timeout=0s", "?wait=1&wait_timeout=2h", "?wait_timeout=1s"]
        {
            let refused =
                StoreOptions::default().read_url(&format!("redis://u:hunter2@h{wrong}")).unwrap_err();
            assert!(!refused.message.contains("hunter2"), "{refused}");
        }
    }
}
