//! Definitions: immutable once registered.

use amends_store::{Definitions, Error, StoredDefinition};
use async_trait::async_trait;
use mysql_async::Row;

use crate::MySqlStore;
use crate::error::{Call, unreadable};
use crate::rows::{limit, number, text, time};
use crate::sql::fill;

// Whoever comes second waits for the first, and then finds it below.
const REGISTER: &str =
    "INSERT INTO amends_definition (name, version, digest, tree, created_at) VALUES (?, ?, ?, ?, ?)";

const BY_VERSION: &str =
    "SELECT name, version, digest, tree, created_at FROM amends_definition WHERE name = ? AND version = ?";

const BY_NAME: &str = "SELECT name, version, digest, tree, created_at FROM amends_definition
    WHERE name = ? ORDER BY version DESC LIMIT 1";

const BY_DIGEST: &str =
    "SELECT name, version, digest, tree, created_at FROM amends_definition WHERE digest = ? LIMIT 1";

const LIST: &str = "SELECT name, version, digest, tree, created_at FROM amends_definition
    WHERE name > ? OR (name = ? AND version > ?) ORDER BY name, version LIMIT ?";

#[async_trait]
impl Definitions for MySqlStore {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        let StoredDefinition { name, version, digest, tree, created_at } = &definition;
        let values = [name.into(), (*version).into(), digest.into(), tree.into(), (*created_at).into()];
        if self.pool.insert(&fill(REGISTER, &values)).await?.is_some() {
            return Ok(Ok(true));
        }
        let known = self.by_name(name, Some(*version)).await?;
        let known = known.ok_or_else(|| unreadable("no definition where one was just found"))?;
        Ok(if known.digest == *digest { Ok(false) } else { Err(known) })
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        let row = self.pool.query_opt(Call::Reads, &fill(BY_DIGEST, &[digest.into()])).await?;
        row.as_ref().map(read).transpose()
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        let sql = match version {
            Some(version) => fill(BY_VERSION, &[name.into(), version.into()]),
            None => fill(BY_NAME, &[name.into()]),
        };
        let row = self.pool.query_opt(Call::Reads, &sql).await?;
        row.as_ref().map(read).transpose()
    }

    async fn list(&self, after: Option<(String, u64)>, max: usize) -> Result<Vec<StoredDefinition>, Error> {
        // No name is empty, so that everything comes after this.
        let (name, version) = after.unwrap_or_default();
        let list = fill(LIST, &[(&name).into(), (&name).into(), version.into(), limit(max).into()]);
        self.pool.query(Call::Reads, &list).await?.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<StoredDefinition, Error> {
    Ok(StoredDefinition {
        name: text(row, 0)?,
        version: number(row, 1)?,
        digest: text(row, 2)?,
        tree: text(row, 3)?,
        created_at: time(row, 4)?,
    })
}
