//! Definitions: immutable once registered.

use amends_core::Time;
use amends_store::{Definitions, Error, StoredDefinition};
use async_trait::async_trait;
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::error::{Call, unreadable};
use crate::rows::{get, int, limit, number, sought};

// Whoever comes second waits for the first, and then finds it below.
const REGISTER: &str =
    "INSERT INTO amends.definition (name, version, digest, tree, created_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (name, version) DO NOTHING RETURNING version";

const BY_VERSION: &str =
    "SELECT name, version, digest, tree, created_at FROM amends.definition WHERE name = $1 AND version = $2";

const BY_NAME: &str = "SELECT name, version, digest, tree, created_at FROM amends.definition
    WHERE name = $1 ORDER BY version DESC LIMIT 1";

const BY_DIGEST: &str =
    "SELECT name, version, digest, tree, created_at FROM amends.definition WHERE digest = $1 LIMIT 1";

const LIST: &str = "SELECT name, version, digest, tree, created_at FROM amends.definition
    WHERE (name, version) > ($1, $2) ORDER BY name, version LIMIT $3";

#[async_trait]
impl Definitions for PostgresStore {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        let StoredDefinition { name, version, digest, tree, created_at } = &definition;
        let number = int(*version)?;
        let params: crate::pool::Params<'_> = &[name, &number, digest, tree, &created_at.0];
        if self.pool.query_opt(Call::Writes, REGISTER, params).await?.is_some() {
            return Ok(Ok(true));
        }
        let known = self.by_name(name, Some(*version)).await?;
        let known = known.ok_or_else(|| unreadable("no definition where one was just found"))?;
        Ok(if known.digest == *digest { Ok(false) } else { Err(known) })
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        let row = self.pool.query_opt(Call::Reads, BY_DIGEST, &[&digest]).await?;
        row.as_ref().map(read).transpose()
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        let row = match version {
            Some(version) => self.pool.query_opt(Call::Reads, BY_VERSION, &[&name, &sought(version)]).await?,
            None => self.pool.query_opt(Call::Reads, BY_NAME, &[&name]).await?,
        };
        row.as_ref().map(read).transpose()
    }

    async fn list(&self, after: Option<(String, u64)>, max: usize) -> Result<Vec<StoredDefinition>, Error> {
        // No name is empty, so that everything comes after this.
        let (name, version) = after.unwrap_or_default();
        let found = self.pool.query(Call::Reads, LIST, &[&name, &sought(version), &limit(max)]).await?;
        found.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<StoredDefinition, Error> {
    Ok(StoredDefinition {
        name: get(row, 0)?,
        version: number(row, 1)?,
        digest: get(row, 2)?,
        tree: get(row, 3)?,
        created_at: Time(get(row, 4)?),
    })
}
