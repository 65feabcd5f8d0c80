//! Versions of the tables. Migrations are only ever added to.

use amends_store::{Error, Kind};
use tokio_postgres::Client;

use crate::error::{Call, store_error};

/// Each brings the tables from the version before to its place in this list.
const MIGRATIONS: [&str; 5] = [
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_locks.sql"),
    include_str!("migrations/0003_submissions.sql"),
    include_str!("migrations/0004_lock_check.sql"),
    include_str!("migrations/0005_expected.sql"),
];

/// The advisory lock of whoever changes tables ("amends" in ASCII): of nodes that start together, one does it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(x'616d656e6473'::bigint)";

const VERSIONS: &str = "CREATE SCHEMA IF NOT EXISTS amends;
    CREATE TABLE IF NOT EXISTS amends.migration (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())";

/// Brings the tables to this program's version, all in one transaction: a second call finds nothing to do, and one that is cut off has done nothing.
///
/// # Errors
/// [`Kind::Refused`] if they are of a later version.
pub(crate) async fn run(client: &Client) -> Result<(), Error> {
    let sql = |e| store_error(&e, Call::Reads);
    let version = version(client).await?;
    if version == MIGRATIONS.len() {
        return Ok(());
    }
    client.batch_execute(&format!("BEGIN; {LOCK}; {VERSIONS}")).await.map_err(sql)?;
    // Another node may have done it meanwhile.
    let version = self::version(client).await?;
    for (number, migration) in (1..).zip(MIGRATIONS).skip(version) {
        let applied = format!("{migration}; INSERT INTO amends.migration (version) VALUES ({number})");
        client.batch_execute(&applied).await.map_err(sql)?;
    }
    client.batch_execute("COMMIT").await.map_err(sql)
}

/// The version of the tables; 0: there are none.
async fn version(client: &Client) -> Result<usize, Error> {
    let sql = |e| store_error(&e, Call::Reads);
    let there = "SELECT to_regclass('amends.migration') IS NOT NULL";
    let there: bool = client.query_one(there, &[]).await.map_err(sql)?.get(0);
    if !there {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) FROM amends.migration";
    let version: i64 = client.query_one(version, &[]).await.map_err(sql)?.get(0);
    let known = MIGRATIONS.len();
    match usize::try_from(version) {
        Ok(version) if version <= known => Ok(version),
        Ok(_) | Err(_) => Err(Error::new(
            Kind::Refused,
            format!(
                "the schema amends is of version {version}, but this program knows versions up to {known}; use the newer program again"
            ),
        )),
    }
}
