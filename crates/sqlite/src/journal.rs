//! Sagas and their journals.

use std::sync::Arc;

use amends_core::SagaId;
use amends_store::{Error, Item, Journal, Kind, Outcome, Row, Stored, StoredEntry};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::SqliteStore;
use crate::advance::set_row;
use crate::batch::Batch;
use crate::rows::{self, COLUMNS, all, limit, number, one, rowid, sought, time};

pub(crate) const ENTRIES: &str =
    "SELECT seq, at, keep, body FROM entry WHERE saga = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";

pub(crate) const NONCE: &str =
    "SELECT nonce FROM entry WHERE saga = (SELECT rowid FROM saga WHERE id = ?1) AND seq = ?2";

#[async_trait]
impl Journal for SqliteStore {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let (count, (reply, answer)) = (batch.len(), oneshot::channel());
        let error = match self.writer.send(Box::new(Batch::new(batch, Arc::clone(&self.health), reply))).await
        {
            Ok(()) => match answer.await {
                Ok(outcomes) => return outcomes,
                Err(_) => Error::new(
                    Kind::Indeterminate,
                    "the store's writer ended without an answer; restart the engine",
                ),
            },
            Err(error) => error,
        };
        vec![Outcome::Failed(error); count]
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        // After a cut-off commit this process sees the state before it, and the next one may see the state after.
        self.health.sure()?;
        let id = id.clone();
        let written = self.readers.read(move |conn| {
            one(conn, NONCE, params![id.as_str(), sought(seq)], |row| row.get::<_, i64>(0))
        });
        Ok(written.await?.map(|written| written.cast_unsigned() == nonce))
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        let wanted = id.clone();
        let stored = self.readers.read(move |conn| load(conn, &wanted)).await;
        stored.map_err(|error| about(id, error))
    }

    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        let wanted = id.clone();
        let entries = self.readers.read(move |conn| match rowid(conn, &wanted)? {
            Some(rowid) => entries(conn, rowid, after, limit),
            None => Ok(Vec::new()),
        });
        entries.await.map_err(|error| about(id, error))
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        let row = Row { owner: None, ..row };
        self.writer.write(move |tx| set_row(tx, sought(row.rowid), &row, 0, row.due_at)).await
    }
}

fn load(conn: &Connection, id: &SagaId) -> rusqlite::Result<Option<Stored>> {
    let sql = format!("SELECT {COLUMNS} FROM saga WHERE id = ?1");
    let Some(mut row) = one(conn, &sql, [id.as_str()], rows::row)? else { return Ok(None) };
    let entries = entries(conn, sought(row.rowid), 0, usize::MAX)?;
    // The column is only written together with others.
    row.seq = row.seq.max(entries.last().map_or(0, |entry| entry.seq));
    Ok(Some(Stored { row, entries }))
}

fn entries(conn: &Connection, rowid: i64, after: u64, max: usize) -> rusqlite::Result<Vec<StoredEntry>> {
    all(conn, ENTRIES, params![rowid, sought(after), limit(max)], |row| {
        Ok(StoredEntry { seq: number(row, 0)?, at: time(row, 1)?, keep: row.get(2)?, body: row.get(3)? })
    })
}

/// Says which saga a damaged page concerns.
fn about(id: &SagaId, error: Error) -> Error {
    match error.kind {
        Kind::Corrupt => Error::new(error.kind, format!("saga {id}: {}", error.message)),
        Kind::Unavailable | Kind::Indeterminate | Kind::Unwritable | Kind::Refused => error,
    }
}
