//! Retention: ids stay for ever, journals and payloads do not.

use amends_core::Time;
use amends_store::{Error, Retention};
use async_trait::async_trait;

use crate::PostgresStore;
use crate::error::Call;
use crate::rows::limit;

/// What one call removes at most: short transactions let dead rows be cleared.
const PRUNE_MAX: usize = 200;

// A saga that a commit has locked is left for later. The last entry's number must survive the entry.
const SAGAS: &str = "WITH ended AS MATERIALIZED (
        SELECT rowid FROM amends.saga
        WHERE ended_at IS NOT NULL AND NOT pruned AND owner_epoch IS NULL AND due_at IS NULL AND ended_at < $1
        ORDER BY ended_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
    ), marked AS (
        UPDATE amends.saga s SET pruned = true,
            seq = greatest(s.seq, (SELECT max(e.seq) FROM amends.entry e WHERE e.saga = s.rowid))
        FROM ended WHERE s.rowid = ended.rowid RETURNING s.rowid
    ), removed AS (
        DELETE FROM amends.entry e USING ended WHERE e.saga = ended.rowid AND NOT e.keep
    )
    SELECT rowid FROM marked";

const MAIL: &str = "DELETE FROM amends.mail WHERE id IN (
        SELECT id FROM amends.mail WHERE answer IS NOT NULL AND posted_at < $1 ORDER BY posted_at LIMIT $2)
    RETURNING id";

#[async_trait]
impl Retention for PostgresStore {
    async fn prune(&self, ended_before: Time, max: usize) -> Result<usize, Error> {
        let max = max.min(PRUNE_MAX);
        let sagas = self.pool.query(Call::Writes, SAGAS, &[&ended_before.0, &limit(max)]).await?.len();
        let left = limit(max.saturating_sub(sagas));
        let mails = self.pool.query(Call::Writes, MAIL, &[&ended_before.0, &left]).await?.len();
        Ok(sagas + mails)
    }
}
