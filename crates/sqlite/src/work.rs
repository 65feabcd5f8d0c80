//! Due work and take-over. What is looked up is in partial indexes, so that it costs what is due, not what exists.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Intake, NodeLease, Work};
use async_trait::async_trait;
use rusqlite::{Connection, params};

use crate::SqliteStore;
use crate::nodes::is_live;
use crate::rows::{all, due, int, one};
use crate::writer::{Tx, counted};

/// Sagas that one call claims at most, so that commits behind it in the queue do not wait long.
pub(crate) const CLAIM_MAX: usize = 1_000;

pub(crate) const DUE: &str = "SELECT rowid, id FROM saga
    WHERE owner_epoch IS NULL AND due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at, rowid LIMIT ?2";

// The epochs that own something, one seek each: sagas in flight belong to few.
pub(crate) const NEXT_EPOCH: &str =
    "SELECT min(owner_epoch) FROM saga WHERE owner_epoch IS NOT NULL AND owner_epoch > ?1";

pub(crate) const OWNED: &str = "SELECT rowid, id FROM saga WHERE owner_epoch = ?1 ORDER BY rowid LIMIT ?2";

const OWNER: &str = "SELECT rowid, id, owner_epoch FROM saga WHERE id = ?1";

const CLAIM: &str = "UPDATE saga SET owner_node = ?2, owner_epoch = ?3 WHERE rowid = ?1";

pub(crate) const NEXT_DUE: &str =
    "SELECT min(due_at) FROM saga WHERE owner_epoch IS NULL AND due_at IS NOT NULL";

#[async_trait]
impl Work for SqliteStore {
    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        let (lease, limit) = (lease.clone(), limit.min(CLAIM_MAX));
        self.claiming(move |tx| {
            if !is_live(tx.conn, lease.epoch, now)? {
                return Ok(Vec::new());
            }
            let found = all(tx.conn, DUE, params![now.0, crate::rows::limit(limit)], due)?;
            claim(tx, &lease, found)
        })
        .await
    }

    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        let (lease, limit) = (lease.clone(), limit.min(CLAIM_MAX));
        self.claiming(move |tx| {
            if !is_live(tx.conn, lease.epoch, now)? {
                return Ok(Vec::new());
            }
            let found = lapsed(tx.conn, now, limit)?;
            claim(tx, &lease, found)
        })
        .await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error> {
        let (lease, id) = (lease.clone(), id.clone());
        self.claiming(move |tx| {
            let found =
                one(tx.conn, OWNER, [id.as_str()], |row| Ok((due(row)?, row.get::<_, Option<i64>>(2)?)))?;
            let Some((saga, owner)) = found else { return Ok(false) };
            let own = int(lease.epoch)?;
            let free = match owner {
                Some(epoch) if epoch != own => !is_live(tx.conn, epoch.unsigned_abs(), now)?,
                Some(_) | None => true,
            };
            if !free || !is_live(tx.conn, lease.epoch, now)? {
                return Ok(false);
            }
            claim(tx, &lease, vec![saga])?;
            Ok(true)
        })
        .await
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        let earliest = self.readers.read(|conn| one(conn, NEXT_DUE, [], |row| row.get::<_, Option<i64>>(0)));
        Ok(earliest.await?.flatten().map(Time))
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }
}

impl SqliteStore {
    /// A write that takes on work, which a damaged file does not.
    pub(crate) async fn claiming<T: Send + 'static>(
        &self,
        call: impl FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.health.takes_work()?;
        self.writer.write(call).await
    }
}

/// Sagas of epochs that are over.
fn lapsed(conn: &Connection, now: Time, limit: usize) -> rusqlite::Result<Vec<Due>> {
    let mut found = Vec::new();
    for epoch in owning_epochs(conn)? {
        if found.len() >= limit {
            break;
        }
        if !is_live(conn, epoch, now)? {
            let left = crate::rows::limit(limit - found.len());
            found.extend(all(conn, OWNED, params![int(epoch)?, left], due)?);
        }
    }
    Ok(found)
}

/// The epochs that own sagas, smallest first.
pub(crate) fn owning_epochs(conn: &Connection) -> rusqlite::Result<Vec<u64>> {
    let mut epochs = Vec::new();
    let mut after = -1;
    while let Some(epoch) =
        conn.prepare_cached(NEXT_EPOCH)?.query_row([after], |row| row.get::<_, Option<i64>>(0))?
    {
        epochs.push(epoch.unsigned_abs());
        after = epoch;
    }
    Ok(epochs)
}

fn claim(tx: &mut Tx<'_>, lease: &NodeLease, found: Vec<Due>) -> rusqlite::Result<Vec<Due>> {
    for saga in &found {
        let rowid = int(saga.rowid)?;
        if let Some((true, counted)) = counted(tx.conn, rowid)? {
            tx.tally.lose(counted);
        }
        tx.conn.prepare_cached(CLAIM)?.execute(params![rowid, lease.node, int(lease.epoch)?])?;
    }
    Ok(found)
}
