//! Due work and take-over. What is looked up is in partial indexes, so that it costs what is due, not what exists.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Intake, NodeLease, Work};
use async_trait::async_trait;

use crate::PostgresStore;
use crate::error::Call;
use crate::rows::{due, get, limit, sought};

/// Sagas that one call claims at most: their rows stay locked while it does.
const CLAIM_MAX: usize = 1_000;

// What another node is just claiming, or committing, is passed over. The rows are chosen once: a subquery of UPDATE could run again and claim
// more than it was asked for.
const CLAIM_DUE: &str = "WITH due AS MATERIALIZED (
        SELECT rowid, id, due_at FROM amends.saga
        WHERE owner_epoch IS NULL AND due_at IS NOT NULL AND due_at <= amends.now_ms()
            AND EXISTS (SELECT FROM amends.node WHERE epoch = $2 AND expires_at > amends.now_ms())
        ORDER BY due_at, rowid LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE amends.saga s SET owner_node = $1, owner_epoch = $2 FROM due WHERE s.rowid = due.rowid
        RETURNING s.rowid, s.id, due.due_at
    )
    SELECT rowid, id FROM claimed ORDER BY due_at, rowid";

// The epochs that own something are found by one seek each: sagas in flight belong to few.
const TAKE_OVER: &str = "WITH RECURSIVE owning (epoch) AS (
        (SELECT owner_epoch FROM amends.saga WHERE owner_epoch IS NOT NULL ORDER BY owner_epoch LIMIT 1)
        UNION ALL
        SELECT (SELECT s.owner_epoch FROM amends.saga s WHERE s.owner_epoch > owning.epoch ORDER BY s.owner_epoch LIMIT 1)
        FROM owning WHERE owning.epoch IS NOT NULL
    ), lapsed AS MATERIALIZED (
        SELECT array_agg(epoch) AS epochs FROM owning
        WHERE epoch IS NOT NULL AND NOT EXISTS (
            SELECT FROM amends.node WHERE node.epoch = owning.epoch AND node.expires_at > amends.now_ms())
    ), found AS MATERIALIZED (
        SELECT rowid, id FROM amends.saga
        WHERE owner_epoch IS NOT NULL AND owner_epoch = ANY((SELECT epochs FROM lapsed)::bigint[])
            AND EXISTS (SELECT FROM amends.node WHERE epoch = $2 AND expires_at > amends.now_ms())
        ORDER BY rowid LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE amends.saga s SET owner_node = $1, owner_epoch = $2 FROM found WHERE s.rowid = found.rowid
        RETURNING s.rowid, s.id
    )
    SELECT rowid, id FROM claimed ORDER BY rowid";

const CLAIM: &str = "UPDATE amends.saga s SET owner_node = $1, owner_epoch = $2
    WHERE s.id = $3
        AND EXISTS (SELECT FROM amends.node WHERE epoch = $2 AND expires_at > amends.now_ms())
        AND (s.owner_epoch IS NULL OR s.owner_epoch = $2 OR NOT EXISTS (
            SELECT FROM amends.node WHERE node.epoch = s.owner_epoch AND node.expires_at > amends.now_ms()))
    RETURNING s.rowid";

const NEXT_DUE: &str = "SELECT due_at FROM amends.saga
    WHERE owner_epoch IS NULL AND due_at IS NOT NULL ORDER BY due_at, rowid LIMIT 1";

#[async_trait]
impl Work for PostgresStore {
    async fn claim_due(&self, lease: &NodeLease, _: Time, max: usize) -> Result<Vec<Due>, Error> {
        self.claim_some(CLAIM_DUE, lease, max).await
    }

    async fn take_over(&self, lease: &NodeLease, _: Time, max: usize) -> Result<Vec<Due>, Error> {
        self.claim_some(TAKE_OVER, lease, max).await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, _: Time) -> Result<bool, Error> {
        self.pool.health.takes_work()?;
        let epoch = sought(lease.epoch);
        let params: crate::pool::Params<'_> = &[&lease.node, &epoch, &id.as_str()];
        Ok(self.pool.query_opt(Call::Writes, CLAIM, params).await?.is_some())
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        let row = self.pool.query_opt(Call::Reads, NEXT_DUE, &[]).await?;
        row.map(|row| get(&row, 0).map(Time)).transpose()
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }
}

impl PostgresStore {
    async fn claim_some(&self, sql: &'static str, lease: &NodeLease, max: usize) -> Result<Vec<Due>, Error> {
        self.pool.health.takes_work()?;
        let (epoch, max) = (sought(lease.epoch), limit(max.min(CLAIM_MAX)));
        let claimed = self.pool.query(Call::Writes, sql, &[&lease.node, &epoch, &max]).await?;
        claimed.iter().map(due).collect()
    }
}
