//! What a server's settings can lose: looked at before anything relies on it.
//!
//! Sources: the documentation of Redis on persistence, replication and eviction; CVE-2025-49844 and the versions that fix it.

mod facts;
mod functions;
mod judge;

use redis::Value;

use crate::client::{Client, Error, ErrorKind};

pub use functions::functions;
pub use judge::{Finding, Severity};

use facts::Facts;

/// What is expected of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Whatever was acknowledged survives a restart.
    Kept,
    /// What it holds may be lost with it; somebody asked for that.
    Volatile,
}

/// Looks at the settings of every primary. It changes nothing; a second call looks again. Findings come by server, the gravest first.
///
/// # Errors
/// If a server cannot be reached, or does not let its `INFO` be read.
pub async fn check(client: &Client, durability: Durability) -> Result<Vec<Finding>, Error> {
    let mut info = redis::cmd("INFO");
    info.arg("all");
    let mut findings = Vec::new();
    for (address, answer) in client.on_each_primary(info).await? {
        let mut facts = Facts::default();
        facts.read_info(&answer);
        let mut get = redis::cmd("CONFIG");
        get.arg("GET");
        facts::SETTINGS.iter().for_each(|setting| {
            get.arg(*setting);
        });
        match client.on_primary(&address, get).await {
            Ok(answer) => facts.read_config(&answer),
            // Managed services often forbid it: then INFO has to do.
            Err(e) if matches!(e.kind, ErrorKind::Denied | ErrorKind::Refused) => {}
            Err(e) => return Err(e),
        }
        findings.extend(judge::judge(&address, &facts, durability));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// The findings for which a server must not be relied on, as one error.
///
/// # Errors
/// [`ErrorKind::Refused`] with every reason and remedy, if there is any.
pub fn refuse(findings: &[Finding]) -> Result<(), Error> {
    let grave: Vec<String> =
        findings.iter().filter(|f| f.severity == Severity::Refuse).map(ToString::to_string).collect();
    if grave.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Refused, grave.join("; ")))
}

/// Pairs of a map, in either protocol.
fn pairs(answer: &Value) -> Vec<(&Value, &Value)> {
    match answer {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(items) => items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}
