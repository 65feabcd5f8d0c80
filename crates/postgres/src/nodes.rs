//! Node leases, on the server's clock.

use amends_core::Time;
use amends_store::{Error, NodeLease, Nodes};
use async_trait::async_trait;

use crate::PostgresStore;
use crate::error::{Call, unreadable};
use crate::rows::{get, int, number, sought};

// The row of epochs is locked until the lease is there, so that leases begin in the order of their epochs.
const JOIN: &str = "WITH next AS (UPDATE amends.epoch SET value = value + 1 RETURNING value)
    INSERT INTO amends.node (name, epoch, expires_at) SELECT $1, value, amends.now_ms() + $2 FROM next
    ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, expires_at = excluded.expires_at
    RETURNING epoch, expires_at";

const RENEW: &str = "UPDATE amends.node SET expires_at = amends.now_ms() + $3
    WHERE name = $1 AND epoch = $2 AND expires_at > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    RETURNING epoch, expires_at";

const LEAVE: &str = "DELETE FROM amends.node WHERE name = $1 AND epoch = $2";

#[async_trait]
impl Nodes for PostgresStore {
    async fn join(&self, node: &str, ttl_ms: u64, _: Time) -> Result<NodeLease, Error> {
        let row = self.pool.query_opt(Call::Writes, JOIN, &[&node, &int(ttl_ms)?]).await?;
        lease(node, &row.ok_or_else(|| unreadable("no row of epochs"))?)
    }

    async fn renew(&self, held: &NodeLease, ttl_ms: u64, _: Time) -> Result<Option<NodeLease>, Error> {
        let (epoch, ttl_ms) = (sought(held.epoch), int(ttl_ms)?);
        let row = self.pool.query_opt(Call::Writes, RENEW, &[&held.node, &epoch, &ttl_ms]).await?;
        row.map(|row| lease(&held.node, &row)).transpose()
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        self.pool.query(Call::Writes, LEAVE, &[&lease.node, &sought(lease.epoch)]).await.map(drop)
    }
}

fn lease(node: &str, row: &tokio_postgres::Row) -> Result<NodeLease, Error> {
    Ok(NodeLease { node: node.to_owned(), epoch: number(row, 0)?, expires_at: Time(get(row, 1)?) })
}
