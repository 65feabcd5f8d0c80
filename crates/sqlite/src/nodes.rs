//! Node leases.

use amends_core::Time;
use amends_store::{Error, NodeLease, Nodes};
use async_trait::async_trait;
use rusqlite::{Connection, params};

use crate::SqliteStore;
use crate::rows::{int, number, one, sought};

const LIVE: &str = "SELECT 1 FROM node WHERE epoch = ?1 AND expires_at > ?2";

const NEXT_EPOCH: &str = "UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value";

const JOIN: &str = "INSERT INTO node (name, epoch, expires_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, expires_at = excluded.expires_at";

const RENEW: &str = "UPDATE node SET expires_at = ?3 WHERE name = ?1 AND epoch = ?2 AND expires_at > ?4";

const LEAVE: &str = "DELETE FROM node WHERE name = ?1 AND epoch = ?2";

#[async_trait]
impl Nodes for SqliteStore {
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error> {
        let node = node.to_owned();
        let expires_at = now.plus_ms(ttl_ms);
        self.writer
            .write(move |tx| {
                let epoch = tx.conn.prepare_cached(NEXT_EPOCH)?.query_row([], |row| number(row, 0))?;
                tx.conn.prepare_cached(JOIN)?.execute(params![node, int(epoch)?, expires_at.0])?;
                Ok(NodeLease { node: node.clone(), epoch, expires_at })
            })
            .await
    }

    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error> {
        let renewed = NodeLease { expires_at: now.plus_ms(ttl_ms), ..lease.clone() };
        self.writer
            .write(move |tx| {
                let NodeLease { node, epoch, expires_at } = &renewed;
                let rows = tx.conn.prepare_cached(RENEW)?.execute(params![
                    node,
                    int(*epoch)?,
                    expires_at.0,
                    now.0
                ])?;
                Ok((rows > 0).then(|| renewed.clone()))
            })
            .await
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        let lease = lease.clone();
        self.writer
            .write(move |tx| {
                tx.conn.prepare_cached(LEAVE)?.execute(params![lease.node, int(lease.epoch)?])?;
                Ok(())
            })
            .await
    }
}

/// Whether the lease with this epoch is the last of its node, and not over.
pub(crate) fn is_live(conn: &Connection, epoch: u64, now: Time) -> rusqlite::Result<bool> {
    Ok(one(conn, LIVE, params![sought(epoch), now.0], |_| Ok(()))?.is_some())
}
