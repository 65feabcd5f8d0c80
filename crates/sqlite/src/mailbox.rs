//! Inputs for sagas that somebody else drives.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Mail, Mailbox, NodeLease};
use async_trait::async_trait;
use rusqlite::params;

use crate::SqliteStore;
use crate::rows::{all, due, limit, number, one, rowid, sought};

const KNOWN: &str = "SELECT id FROM mail WHERE saga = ?1 AND input_id = ?2";

const POST: &str = "INSERT INTO mail (saga, input_id, body, posted_at) VALUES (?1, ?2, ?3, ?4)";

// Nobody's sagas are woken; an owner finds its mail by itself, and what a dead owner had is taken over.
const WAKE: &str =
    "UPDATE saga SET due_at = min(coalesce(due_at, ?2), ?2) WHERE rowid = ?1 AND owner_epoch IS NULL";

pub(crate) const WAITING: &str =
    "SELECT id, input_id, body FROM mail WHERE saga = ?1 AND answer IS NULL ORDER BY id LIMIT ?2";

pub(crate) const MINE: &str = "SELECT rowid, id FROM saga
    WHERE rowid IN (SELECT saga FROM mail WHERE answer IS NULL) AND +owner_epoch = ?1 ORDER BY rowid LIMIT ?2";

const ANSWER: &str = "SELECT answer FROM mail WHERE id = ?1";

#[async_trait]
impl Mailbox for SqliteStore {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], now: Time) -> Result<Option<u64>, Error> {
        let (id, input_id, body) = (id.clone(), input_id.to_owned(), body.to_owned());
        self.writer
            .write(move |tx| {
                let Some(saga) = rowid(tx.conn, &id)? else { return Ok(None) };
                if let Some(known) = one(tx.conn, KNOWN, params![saga, input_id], |row| number(row, 0))? {
                    return Ok(Some(known));
                }
                tx.conn.prepare_cached(POST)?.execute(params![saga, input_id, body, now.0])?;
                let mail = tx.conn.last_insert_rowid().unsigned_abs();
                tx.conn.prepare_cached(WAKE)?.execute(params![saga, now.0])?;
                Ok(Some(mail))
            })
            .await
    }

    async fn waiting(&self, id: &SagaId, max: usize) -> Result<Vec<Mail>, Error> {
        let id = id.clone();
        self.readers
            .read(move |conn| {
                let Some(saga) = rowid(conn, &id)? else { return Ok(Vec::new()) };
                all(conn, WAITING, params![saga, limit(max)], |row| {
                    Ok(Mail { id: number(row, 0)?, input_id: row.get(1)?, body: row.get(2)? })
                })
            })
            .await
    }

    async fn mine(&self, lease: &NodeLease, max: usize) -> Result<Vec<Due>, Error> {
        let epoch = lease.epoch;
        self.readers.read(move |conn| all(conn, MINE, params![sought(epoch), limit(max)], due)).await
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        let answer = self
            .readers
            .read(move |conn| one(conn, ANSWER, [sought(mail)], |row| row.get::<_, Option<Vec<u8>>>(0)));
        Ok(answer.await?.flatten())
    }
}
