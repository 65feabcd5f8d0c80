//! Node leases, on the server's clock.

use amends_core::Time;
use amends_store::{Error, NodeLease, Nodes};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::{Call, unreadable};
use crate::rows::{now_ms, number, time};
use crate::session::Answer;
use crate::sql::{Script, fill};

// The row of epochs is locked until the lease is there, so that leases begin in the order of their epochs.
const NEXT: &str = "UPDATE amends_epoch SET value = LAST_INSERT_ID(value + 1) WHERE one = 1";

const JOIN: &str = concat!(
    "INSERT INTO amends_node (name, epoch, expires_at) VALUES (?, LAST_INSERT_ID(), ",
    now_ms!(),
    " + ?) ON DUPLICATE KEY UPDATE epoch = VALUES(epoch), expires_at = VALUES(expires_at)"
);

// The clock is that of the moment, not of the statement: it may have waited for the row.
const RENEW: &str = concat!(
    "UPDATE amends_node SET expires_at = ",
    now_ms!(),
    " + ? WHERE name = ? AND epoch = ? AND expires_at > CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)"
);

const LEASE: &str = "SELECT epoch, expires_at FROM amends_node WHERE name = ?";

const LEAVE: &str = "DELETE FROM amends_node WHERE name = ? AND epoch = ?";

#[async_trait]
impl Nodes for MySqlStore {
    async fn join(&self, node: &str, ttl_ms: u64, _: Time) -> Result<NodeLease, Error> {
        let join = fill(JOIN, &[node.into(), ttl_ms.into()]);
        let script = Script::of(&["START TRANSACTION", NEXT, &join, &fill(LEASE, &[node.into()]), "COMMIT"]);
        let answers = self.pool.script(Call::Writes, &script).await?;
        lease(node, answers.get(3))
    }

    async fn renew(&self, held: &NodeLease, ttl_ms: u64, _: Time) -> Result<Option<NodeLease>, Error> {
        let node = held.node.as_str();
        let renew = fill(RENEW, &[ttl_ms.into(), node.into(), held.epoch.into()]);
        let script = Script::of(&["START TRANSACTION", &renew, &fill(LEASE, &[node.into()]), "COMMIT"]);
        let answers = self.pool.script(Call::Writes, &script).await?;
        match answers.get(1) {
            Some(renewed) if renewed.affected > 0 => lease(node, answers.get(2)).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        let leave = fill(LEAVE, &[(&lease.node).into(), lease.epoch.into()]);
        self.pool.query(Call::Writes, &leave).await.map(drop)
    }
}

fn lease(node: &str, answer: Option<&Answer>) -> Result<NodeLease, Error> {
    let row = answer.and_then(|answer| answer.rows.first()).ok_or_else(|| unreadable("no row of a lease"))?;
    Ok(NodeLease { node: node.to_owned(), epoch: number(row, 0)?, expires_at: time(row, 1)? })
}
