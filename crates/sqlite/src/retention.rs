//! Retention: ids stay for ever, journals and payloads do not.

use amends_core::Time;
use amends_store::{Error, Retention};
use async_trait::async_trait;
use rusqlite::params;

use crate::SqliteStore;
use crate::rows::{all, limit};
use crate::writer::Tx;

/// What one call removes at most, so that commits behind it in the queue do not wait long.
pub(crate) const PRUNE_MAX: usize = 200;

pub(crate) const ENDED: &str = "SELECT rowid FROM saga
    WHERE ended_at IS NOT NULL AND pruned = 0 AND owner_epoch IS NULL AND due_at IS NULL AND ended_at < ?1
    ORDER BY ended_at LIMIT ?2";

// The last entry's number must survive the entry.
const MARK: &str = "UPDATE saga SET pruned = 1, seq = max(seq, coalesce((SELECT max(seq) FROM entry WHERE entry.saga = ?1), 0))
    WHERE rowid = ?1";

const ENTRIES: &str = "DELETE FROM entry WHERE saga = ?1 AND keep = 0";

pub(crate) const ANSWERED: &str =
    "SELECT id FROM mail WHERE answer IS NOT NULL AND posted_at < ?1 ORDER BY posted_at LIMIT ?2";

const MAIL: &str = "DELETE FROM mail WHERE id = ?1";

#[async_trait]
impl Retention for SqliteStore {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        self.writer.write(move |tx| prune(tx, ended_before, limit.min(PRUNE_MAX))).await
    }
}

fn prune(tx: &mut Tx<'_>, ended_before: Time, max: usize) -> rusqlite::Result<usize> {
    let sagas = all(tx.conn, ENDED, params![ended_before.0, limit(max)], |row| row.get::<_, i64>(0))?;
    for saga in &sagas {
        tx.conn.prepare_cached(MARK)?.execute([saga])?;
        tx.conn.prepare_cached(ENTRIES)?.execute([saga])?;
    }
    let left = limit(max - sagas.len());
    let mails = all(tx.conn, ANSWERED, params![ended_before.0, left], |row| row.get::<_, i64>(0))?;
    for mail in &mails {
        tx.conn.prepare_cached(MAIL)?.execute([mail])?;
    }
    Ok(sagas.len() + mails.len())
}
