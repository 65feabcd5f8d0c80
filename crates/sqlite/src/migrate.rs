//! Versions of the tables. Migrations are only ever added to.

use std::path::Path;

use amends_store::{Error, Kind};
use rusqlite::Connection;

/// Each brings the tables from the version before to its place in this list.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_locks.sql"),
    include_str!("migrations/0003_submissions.sql"),
];

/// Marks the file as a store of amends ("amnd").
const APPLICATION_ID: i32 = 0x616d_6e64;

/// What stands in the file's header.
struct Header {
    application_id: i32,
    version: i32,
}

/// Refuses a file of something else, or of a later version.
///
/// # Errors
/// [`Kind::Refused`], naming the file and what to do.
pub(crate) fn check(conn: &Connection, path: &Path) -> rusqlite::Result<Result<(), Error>> {
    let Header { application_id, version } = header(conn)?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let refuse = |why: String| Ok(Err(Error::new(Kind::Refused, format!("{} {why}", path.display()))));
    if application_id != APPLICATION_ID && (tables > 0 || application_id != 0) {
        return refuse("is the SQLite database of something else; name another file".to_owned());
    }
    let known = MIGRATIONS.len();
    if usize::try_from(version).is_ok_and(|version| version > known) {
        return refuse(format!(
            "has tables of version {version}, but this program knows versions up to {known}; use the newer program again"
        ));
    }
    Ok(Ok(()))
}

/// Brings the tables to this program's version, each step in a transaction of its own.
///
/// # Errors
/// Those of SQLite; the version it had come to stands.
pub(crate) fn run(conn: &mut Connection) -> rusqlite::Result<()> {
    let from = header(conn)?.version;
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
        let tx = conn.transaction()?;
        tx.execute_batch(migration)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", version)?;
        tx.commit()?;
    }
    Ok(())
}

fn header(conn: &Connection) -> rusqlite::Result<Header> {
    let pragma = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    Ok(Header { application_id: pragma("application_id")?, version: pragma("user_version")? })
}
