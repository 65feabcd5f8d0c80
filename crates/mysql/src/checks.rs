//! Whether a server may hold a store at all.

use std::collections::HashMap;

use amends_store::{Error, Kind};

use crate::error::Call;
use crate::pool::Connection;
use crate::rows::{text, text_opt};
use crate::sql::Script;

/// The oldest versions that have `SKIP LOCKED`. MariaDB 10.11 is the one that is tested.
const MARIADB_MIN: (u32, u32) = (10, 6);
const MYSQL_MIN: (u32, u32) = (8, 0);

/// A body may be 1 MiB long, twice that as a statement, and several come together.
const PACKET_MIN: u64 = 4 << 20;

/// Settings of the server and of this session; those that a server does not have are missing from the answer. 10.11 has `tx_isolation` alone.
const SETTINGS: &str = "SHOW VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'log_bin', \
    'sync_binlog', 'binlog_format', 'read_only', 'super_read_only', 'innodb_read_only', 'innodb_force_recovery', 'tx_isolation', \
    'transaction_isolation', 'max_allowed_packet', 'wsrep_on')";

const ENGINE: &str = "SELECT support FROM information_schema.engines WHERE engine = 'InnoDB'";

/// Tables that somebody has moved to an engine without transactions.
const MOVED: &str = "SELECT table_name FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name LIKE 'amends\\_%' AND engine <> 'InnoDB'";

const REPLICA: &str = "SHOW REPLICA STATUS";

/// Refuses a server that would lose what it committed or takes no writes, and warns of risks.
///
/// # Errors
/// [`Kind::Refused`], with all that is wrong and what to do about it.
pub(crate) async fn run(connection: &mut Connection<'_>) -> Result<(), Error> {
    let answers = connection.send(&Script::of(&[SETTINGS, ENGINE, MOVED])).await;
    let answers = answers.map_err(|fault| fault.tell(Call::Reads))?;
    let rows = |nth: usize| answers.get(nth).map_or(&[][..], |answer| &answer.rows);
    let mut settings = HashMap::new();
    for row in rows(0) {
        settings.insert(text(row, 0)?.to_ascii_lowercase(), text(row, 1)?);
    }
    let settings = Settings(settings);
    let mut wrong = settings.wrong();
    let engine = rows(1).first().map(|row| text(row, 0)).transpose()?.unwrap_or_default();
    if !matches!(engine.as_str(), "YES" | "DEFAULT") {
        wrong.push("it has no storage engine InnoDB: switch it on".to_owned());
    }
    for row in rows(2) {
        let table = text_opt(row, 0)?.unwrap_or_default();
        wrong.push(format!("{table} is not an InnoDB table: ALTER TABLE {table} ENGINE = InnoDB"));
    }
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    warn_of_replica(connection).await;
    if wrong.is_empty() {
        return Ok(());
    }
    let message = format!("this MySQL server is no place for a store: {}", wrong.join("; "));
    Err(Error::new(Kind::Refused, message))
}

/// A replica that takes writes keeps them for itself. Only a user with a certain right may see that it is one.
async fn warn_of_replica(connection: &mut Connection<'_>) {
    match connection.send(&Script::of(&[REPLICA])).await {
        Ok(answers) if answers.iter().any(|answer| !answer.rows.is_empty()) => {
            tracing::warn!(
                "the MySQL server is a replica of another one, but takes writes: if the other one is the primary, name that in the store's URL"
            );
        }
        Ok(_) | Err(_) => {}
    }
}

/// What a server says of itself.
struct Settings(HashMap<String, String>);

impl Settings {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        // `NO_LOCK` and the like of MariaDB are kinds of on.
        !matches!(self.get(name).to_ascii_uppercase().as_str(), "" | "OFF" | "0")
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let version = self.get("version");
        let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
        let (name, min) = if is_mariadb { ("MariaDB", MARIADB_MIN) } else { ("MySQL", MYSQL_MIN) };
        if parse(version) < min {
            wrong.push(format!("its version is below {name} {}.{}: use a later one", min.0, min.1));
        }
        // 3 is what MariaDB did long ago, which syncs even more often.
        if !matches!(self.get("innodb_flush_log_at_trx_commit"), "1" | "3") {
            wrong.push(
                "innodb_flush_log_at_trx_commit is not 1, so that a crash can lose what was committed: set it to 1".to_owned(),
            );
        }
        if self.is_on("log_bin") && self.get("sync_binlog") != "1" {
            wrong.push(
                "log_bin is on, and sync_binlog is not 1, so that a power failure can lose what was committed (recovery undoes what the binary \
                 log has lost): set sync_binlog to 1"
                    .to_owned(),
            );
        }
        if self.is_on("log_bin") && self.get("binlog_format").eq_ignore_ascii_case("STATEMENT") {
            wrong.push(
                "binlog_format is STATEMENT, with which InnoDB refuses READ COMMITTED: set it to MIXED or ROW".to_owned(),
            );
        }
        for setting in ["read_only", "super_read_only", "innodb_read_only"] {
            if self.is_on(setting) {
                wrong.push(format!("{setting} is on: name the primary, or switch it off"));
            }
        }
        if self.is_on("innodb_force_recovery") {
            wrong.push("innodb_force_recovery is set: restore the server first".to_owned());
        }
        let isolation = ["transaction_isolation", "tx_isolation"].map(|name| self.get(name));
        if !isolation.contains(&"READ-COMMITTED") {
            wrong.push(
                "it did not take the isolation level READ COMMITTED for this session: connect without a proxy that changes it".to_owned(),
            );
        }
        let packet = self.get("max_allowed_packet").parse::<u64>().unwrap_or(0);
        if packet < PACKET_MIN {
            wrong
                .push(format!("max_allowed_packet is {packet}: set it to {PACKET_MIN} or more, such as 64M"));
        }
        wrong
    }

    fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.0.contains_key("innodb_doublewrite") && !self.is_on("innodb_doublewrite") {
            warnings.push(
                "innodb_doublewrite is off: unless the file system writes pages whole, a power failure can damage tables; set it to on",
            );
        }
        if self.is_on("wsrep_on") {
            warnings.push(
                "the MySQL server is part of a Galera cluster, which was not tested: name one and the same node in the store's URL of all engines",
            );
        }
        warnings
    }
}

/// The first two numbers of a version. Some servers have `5.5.5-` before theirs, for old replicas.
fn parse(version: &str) -> (u32, u32) {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(changed: &[(&str, &str)]) -> Settings {
        let sound = [
            ("version", "10.11.6-MariaDB-log"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("log_bin", "OFF"),
            ("sync_binlog", "0"),
            ("read_only", "OFF"),
            ("tx_isolation", "READ-COMMITTED"),
            ("max_allowed_packet", "16777216"),
        ];
        let all = sound.iter().chain(changed).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings(all.collect())
    }

    #[test]
    fn sound_servers_of_both_kinds_are_taken() {
        assert_eq!(settings(&[]).wrong(), [""; 0]);
        let mysql = [
            ("version", "8.0.36"),
            ("tx_isolation", ""),
            ("transaction_isolation", "READ-COMMITTED"),
            ("log_bin", "ON"),
            ("sync_binlog", "1"),
            ("binlog_format", "ROW"),
            ("super_read_only", "OFF"),
        ];
        assert_eq!(settings(&mysql).wrong(), [""; 0]);
        assert_eq!(settings(&[("version", "5.5.5-10.6.1-MariaDB")]).wrong(), [""; 0]);
    }

    #[test]
    fn what_would_lose_commits_or_take_none_is_named_with_what_to_do() {
        for (changed, named) in [
            (vec![("version", "10.5.9-MariaDB")], "10.6"),
            (vec![("version", "5.7.44")], "MySQL 8.0"),
            (vec![("innodb_flush_log_at_trx_commit", "2")], "set it to 1"),
            (vec![("log_bin", "ON")], "sync_binlog"),
            (vec![("log_bin", "ON"), ("sync_binlog", "1"), ("binlog_format", "STATEMENT")], "MIXED"),
            (vec![("read_only", "NO_LOCK")], "read_only is on"),
            (vec![("super_read_only", "ON")], "super_read_only is on"),
            (vec![("innodb_force_recovery", "1")], "innodb_force_recovery"),
            (vec![("tx_isolation", "REPEATABLE-READ")], "READ COMMITTED"),
            (vec![("max_allowed_packet", "1048576")], "max_allowed_packet"),
        ] {
            let wrong = settings(&changed).wrong();
            assert!(wrong.len() == 1 && wrong[0].contains(named), "{changed:?}: {wrong:?}");
        }
    }

    #[test]
    fn risks_are_warned_of() {
        assert!(settings(&[("innodb_doublewrite", "ON")]).warnings().is_empty());
        assert_eq!(settings(&[("innodb_doublewrite", "OFF"), ("wsrep_on", "ON")]).warnings().len(), 2);
    }
}
