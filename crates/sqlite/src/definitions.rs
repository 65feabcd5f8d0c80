//! Definitions: immutable once registered.

use amends_store::{Definitions, Error, StoredDefinition};
use async_trait::async_trait;
use rusqlite::{Connection, params};

use crate::SqliteStore;
use crate::rows::{all, int, limit, number, one, sought, time};

const COLUMNS: &str = "SELECT name, version, digest, tree, created_at FROM definition";

const REGISTER: &str =
    "INSERT INTO definition (name, version, digest, tree, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";

#[async_trait]
impl Definitions for SqliteStore {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        self.writer
            .write(move |tx| {
                let StoredDefinition { name, version, digest, tree, created_at } = &definition;
                match by_version(tx.conn, name, *version)? {
                    Some(known) if known.digest == *digest => Ok(Ok(false)),
                    Some(known) => Ok(Err(known)),
                    None => {
                        let values = params![name, int(*version)?, digest, tree, created_at.0];
                        tx.conn.prepare_cached(REGISTER)?.execute(values)?;
                        Ok(Ok(true))
                    }
                }
            })
            .await
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        let digest = digest.to_owned();
        let sql = format!("{COLUMNS} WHERE digest = ?1 LIMIT 1");
        self.readers.read(move |conn| one(conn, &sql, [digest], definition)).await
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        let name = name.to_owned();
        self.readers
            .read(move |conn| match version {
                Some(version) => by_version(conn, &name, version),
                None => {
                    let sql = format!("{COLUMNS} WHERE name = ?1 ORDER BY version DESC LIMIT 1");
                    one(conn, &sql, [name], definition)
                }
            })
            .await
    }

    async fn list(&self, after: Option<(String, u64)>, max: usize) -> Result<Vec<StoredDefinition>, Error> {
        // No name is empty, so that everything comes after this.
        let (name, version) = after.unwrap_or_default();
        let sql = format!("{COLUMNS} WHERE (name, version) > (?1, ?2) ORDER BY name, version LIMIT ?3");
        self.readers
            .read(move |conn| all(conn, &sql, params![name, sought(version), limit(max)], definition))
            .await
    }
}

fn by_version(conn: &Connection, name: &str, version: u64) -> rusqlite::Result<Option<StoredDefinition>> {
    let sql = format!("{COLUMNS} WHERE name = ?1 AND version = ?2");
    one(conn, &sql, params![name, sought(version)], definition)
}

fn definition(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredDefinition> {
    Ok(StoredDefinition {
        name: row.get(0)?,
        version: number(row, 1)?,
        digest: row.get(2)?,
        tree: row.get(3)?,
        created_at: time(row, 4)?,
    })
}
