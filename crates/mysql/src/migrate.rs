//! Versions of the tables. Migrations are only ever added to.

use amends_store::{Error, Kind};

use crate::error::{Call, Fault};
use crate::pool::Connection;
use crate::rows::number_opt;
use crate::session::Answer;
use crate::sql::{Script, fill};

/// Each brings the tables from the version before to its place in this list.
const MIGRATIONS: [&str; 4] = [
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_locks.sql"),
    include_str!("migrations/0003_submissions.sql"),
    include_str!("migrations/0004_lock_check.sql"),
];

/// A lock of whoever changes tables: of nodes that start together, one does it. It is of this database alone.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('amends.', MD5(DATABASE()), '.tables'), 20)";
const UNLOCK: &str = "DO RELEASE_LOCK(CONCAT('amends.', MD5(DATABASE()), '.tables'))";

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS amends_migration (version BIGINT UNSIGNED NOT NULL PRIMARY KEY, applied_at TIMESTAMP NOT NULL) ENGINE = InnoDB";

const THERE: &str = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'amends_migration'";

const VERSION: &str = "SELECT MAX(version) FROM amends_migration";

const APPLIED: &str = "INSERT INTO amends_migration (version, applied_at) VALUES (?, NOW())";

/// Brings the tables to this program's version. The server commits each definition of a table by itself, so that one that is cut off is partly done: a
/// second call does the rest, for every statement can be run again, and a version is noted when all its statements are done.
///
/// # Errors
/// [`Kind::Refused`] if they are of a later version.
pub(crate) async fn run(connection: &mut Connection<'_>) -> Result<(), Error> {
    if version(connection).await? == MIGRATIONS.len() {
        return Ok(());
    }
    let locked = ask(connection, &[LOCK]).await?;
    let locked = locked.first().and_then(|answer| answer.rows.first());
    if locked.map(|row| number_opt(row, 0)).transpose()?.flatten() != Some(1) {
        let message = "another node has been changing the tables for long; try again";
        return Err(Error::new(Kind::Unavailable, message));
    }
    ask(connection, &[VERSIONS]).await?;
    // Another node may have done it meanwhile.
    let version = version(connection).await?;
    for (number, migration) in (1_u64..).zip(MIGRATIONS).skip(version) {
        let statements = statements(migration);
        let applied = fill(APPLIED, &[number.into()]);
        ask(connection, &statements.into_iter().chain([applied.as_str()]).collect::<Vec<_>>()).await?;
    }
    ask(connection, &[UNLOCK]).await.map(drop)
}

/// The version of the tables; 0: there are none.
async fn version(connection: &mut Connection<'_>) -> Result<usize, Error> {
    let one = |answers: &[Answer]| -> Result<u64, Error> {
        let row = answers.first().and_then(|answer| answer.rows.first());
        Ok(row.map(|row| number_opt(row, 0)).transpose()?.flatten().unwrap_or(0))
    };
    if one(&ask(connection, &[THERE]).await?)? == 0 {
        return Ok(0);
    }
    let version = one(&ask(connection, &[VERSION]).await?)?;
    let known = MIGRATIONS.len();
    match usize::try_from(version) {
        Ok(version) if version <= known => Ok(version),
        Ok(_) | Err(_) => Err(Error::new(
            Kind::Refused,
            format!(
                "the tables amends_… are of version {version}, but this program knows versions up to {known}; use the newer program again"
            ),
        )),
    }
}

async fn ask(connection: &mut Connection<'_>, statements: &[&str]) -> Result<Vec<Answer>, Error> {
    let answers = connection.send(&Script::of(statements)).await;
    answers.map_err(|fault: Fault| fault.tell(Call::Reads))
}

/// The statements of a migration: an empty line ends one. The server reads what is within one, whatever semicolons it has.
fn statements(migration: &str) -> Vec<&str> {
    let paragraphs = migration.split("\n\n").map(|text| text.trim().trim_end_matches(';'));
    paragraphs
        .filter(|text| {
            text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_statements_unless_they_are_comments_alone() {
        let migration = "-- What it is for.\n\n-- One.\nCREATE TABLE a (\n    x INT\n);\n\nCREATE PROCEDURE p() BEGIN\n    DO 1;\nEND;\n";
        let expected =
            ["-- One.\nCREATE TABLE a (\n    x INT\n)", "CREATE PROCEDURE p() BEGIN\n    DO 1;\nEND"];
        assert_eq!(statements(migration), expected);
        assert!(MIGRATIONS.iter().all(|migration| !statements(migration).is_empty()));
    }
}
