//! What the settings mean.

use std::fmt;

use super::Durability;
use super::facts::Facts;

/// The oldest version with functions.
const OLDEST: (u32, u32, u32) = (7, 0, 0);

/// The first versions in which a script cannot break out of its sandbox (CVE-2025-49844), by line. Distributions fix older ones.
const SANDBOX_HOLDS: &[(u32, u32, u32)] = &[(7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)];

/// A slow script keeps every client out for longer than this before the server says so, in milliseconds.
const BUSY_MS_MAX: u64 = 10_000;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// A risk that somebody should know of.
    Warn,
    /// It would lose what it acknowledged, silently: not to be relied on.
    Refuse,
}

/// What was found about one setting of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How grave it is.
    pub severity: Severity,
    /// The server.
    pub server: String,
    /// What was looked at.
    pub what: &'static str,
    /// What is so, and what it means.
    pub detail: String,
    /// What to do about it; empty if nothing.
    pub fix: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, what, detail, fix, severity: _ } = self;
        write!(f, "redis at {server}: {what}: {detail}")?;
        if fix.is_empty() { Ok(()) } else { write!(f, " ({fix})") }
    }
}

/// One finding for each thing that is looked at.
pub(super) fn judge(server: &str, facts: &Facts, durability: Durability) -> Vec<Finding> {
    let findings = [
        version(facts),
        role(facts),
        eviction(facts),
        append_only(facts, durability),
        sync(facts, durability),
        rewrite(facts),
        last_write(facts),
        replicas(facts),
        sandbox(facts),
        busy(facts),
    ];
    findings.into_iter().flatten().map(|found| Finding { server: server.to_owned(), ..found }).collect()
}

fn finding(
    severity: Severity,
    what: &'static str,
    detail: impl Into<String>,
    fix: &'static str,
) -> Option<Finding> {
    Some(Finding { severity, server: String::new(), what, detail: detail.into(), fix })
}

fn fine(what: &'static str, detail: impl Into<String>) -> Option<Finding> {
    finding(Severity::Fine, what, detail, "")
}

fn version(facts: &Facts) -> Option<Finding> {
    let said = facts.info("redis_version").unwrap_or("not said");
    match facts.version() {
        Some(version) if version >= OLDEST => fine("version", said),
        _ => finding(Severity::Refuse, "version", said, "use Redis 7.0 or later: functions came with it"),
    }
}

fn role(facts: &Facts) -> Option<Finding> {
    match facts.info("role") {
        Some("master") => fine("role", "primary"),
        Some("slave") => {
            let fix = "use the primary's address";
            finding(Severity::Refuse, "role", "it is a replica, and takes no writes", fix)
        }
        other => finding(
            Severity::Refuse,
            "role",
            format!("{} is no primary", other.unwrap_or("a server that does not say what it is")),
            "use the primary's address",
        ),
    }
}

fn eviction(facts: &Facts) -> Option<Finding> {
    match facts.setting("maxmemory-policy", "maxmemory_policy") {
        Some("noeviction") => fine("maxmemory-policy", "noeviction"),
        Some(policy) => finding(
            Severity::Refuse,
            "maxmemory-policy",
            format!("{policy} lets it drop records, leases and fences when memory gets short"),
            "set maxmemory-policy noeviction",
        ),
        None => finding(
            Severity::Warn,
            "maxmemory-policy",
            "it does not say whether it may drop keys when memory gets short",
            "make sure that it is noeviction",
        ),
    }
}

fn append_only(facts: &Facts, durability: Durability) -> Option<Finding> {
    let on = match facts.setting("appendonly", "aof_enabled") {
        Some("yes" | "1") => true,
        Some("no" | "0") => false,
        _ => {
            let detail = "it does not say whether it keeps an append-only file";
            return finding(Severity::Warn, "appendonly", detail, "make sure that it is on");
        }
    };
    match (on, durability) {
        (true, _) => fine("appendonly", "yes"),
        (false, Durability::Kept) => finding(
            Severity::Refuse,
            "appendonly",
            "no: a restart loses what was written since the last snapshot",
            "set appendonly yes, or say durability=volatile if all of it may be lost",
        ),
        (false, Durability::Volatile) => {
            let detail = "no: a restart loses what was written since the last snapshot, as was asked for";
            finding(Severity::Warn, "appendonly", detail, "set appendonly yes")
        }
    }
}

fn sync(facts: &Facts, durability: Durability) -> Option<Finding> {
    if facts.setting("appendonly", "aof_enabled").is_some_and(|on| matches!(on, "no" | "0")) {
        return None;
    }
    let fix = "set appendfsync always";
    match (facts.setting("appendfsync", "-"), durability) {
        (Some("always"), _) => fine("appendfsync", "always"),
        (Some("everysec"), _) => {
            let detail = "everysec: a power failure loses the last second or two of what was acknowledged";
            finding(Severity::Warn, "appendfsync", detail, fix)
        }
        (Some("no"), Durability::Kept) => {
            let detail =
                "no: a power failure loses whatever the system had not written yet, half a minute or more";
            finding(Severity::Refuse, "appendfsync", detail, fix)
        }
        (other, _) => {
            let detail =
                format!("{}: how much a power failure loses is not bounded", other.unwrap_or("not said"));
            finding(Severity::Warn, "appendfsync", detail, fix)
        }
    }
}

fn rewrite(facts: &Facts) -> Option<Finding> {
    (facts.setting("no-appendfsync-on-rewrite", "-") == Some("yes")).then(|| Finding {
        severity: Severity::Warn,
        server: String::new(),
        what: "no-appendfsync-on-rewrite",
        detail: "yes: nothing is synced while the file is rewritten".into(),
        fix: "set no-appendfsync-on-rewrite no",
    })
}

fn last_write(facts: &Facts) -> Option<Finding> {
    let failed = [
        ("aof_last_write_status", "the last write to the append-only file failed"),
        ("aof_last_bgrewrite_status", "the last rewrite of the append-only file failed"),
        ("rdb_last_bgsave_status", "the last snapshot failed"),
    ];
    let said: Vec<&str> =
        failed.iter().filter(|(field, _)| facts.info(field) == Some("err")).map(|(_, said)| *said).collect();
    if said.is_empty() {
        return fine("disk", "the last writes succeeded");
    }
    finding(Severity::Refuse, "disk", said.join(", "), "look at the server's log, and make room on its disk")
}

fn replicas(facts: &Facts) -> Option<Finding> {
    let connected: u64 = facts.info("connected_slaves").and_then(|n| n.parse().ok()).unwrap_or(0);
    if connected == 0 {
        return None;
    }
    match facts.setting("min-replicas-to-write", "-") {
        Some("0") | None => finding(
            Severity::Warn,
            "replicas",
            format!(
                "{connected} connected, but it writes without them: a fail-over loses what they had not got yet"
            ),
            "set min-replicas-to-write 1, and use wait=1",
        ),
        Some(least) => fine("replicas", format!("{connected} connected, at least {least} needed to write")),
    }
}

fn sandbox(facts: &Facts) -> Option<Finding> {
    let version = facts.version()?;
    let holds = version >= (8, 3, 0)
        || SANDBOX_HOLDS
            .iter()
            .any(|fixed| (fixed.0, fixed.1) == (version.0, version.1) && version >= *fixed);
    if holds {
        return None;
    }
    finding(
        Severity::Warn,
        "scripts",
        "unless its distribution has fixed it, whoever may run scripts can run programs on the server (CVE-2025-49844)",
        "use 7.2.11, 7.4.6, 8.0.4, 8.2.2 or later, or make sure that the package has the fix",
    )
}

fn busy(facts: &Facts) -> Option<Finding> {
    let threshold: u64 = facts.setting("busy-reply-threshold", "-")?.parse().ok()?;
    (threshold == 0 || threshold > BUSY_MS_MAX).then(|| Finding {
        severity: Severity::Warn,
        server: String::new(),
        what: "busy-reply-threshold",
        detail: format!(
            "{threshold} ms: while somebody's script runs for long, nobody gets so much as an error"
        ),
        fix: "set busy-reply-threshold 5000",
    })
}
