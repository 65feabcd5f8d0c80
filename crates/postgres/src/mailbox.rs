//! Inputs for sagas that somebody else drives.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Mail, Mailbox, NodeLease};
use async_trait::async_trait;

use crate::PostgresStore;
use crate::error::Call;
use crate::pool::Params;
use crate::rows::{due, get, limit, number, sought, text};

// The saga's row is written either way: this waits for a commit that lets it go, which would not see this mail, and has the commit wait for it.
// Nobody's sagas are woken; an owner finds its mail by itself, and what a dead owner had is taken over.
const POST: &str = "WITH saga AS (
        UPDATE amends.saga SET due_at = CASE WHEN owner_epoch IS NULL
                AND NOT EXISTS (SELECT FROM amends.mail m WHERE m.saga = saga.rowid AND m.input_id = $2)
            THEN least(due_at, amends.now_ms()) ELSE due_at END
        WHERE id = $1 RETURNING rowid
    ), posted AS (
        INSERT INTO amends.mail (saga, input_id, body, posted_at) SELECT rowid, $2, $3, amends.now_ms() FROM saga
        ON CONFLICT (saga, input_id) DO NOTHING RETURNING id
    )
    SELECT id FROM posted";

const KNOWN: &str = "SELECT m.id FROM amends.mail m JOIN amends.saga s ON s.rowid = m.saga WHERE s.id = $1 AND m.input_id = $2";

const WAITING: &str = "SELECT m.id, m.input_id, m.body FROM amends.mail m
    WHERE m.saga = (SELECT rowid FROM amends.saga WHERE id = $1) AND m.answer IS NULL ORDER BY m.id LIMIT $2";

const MINE: &str = "SELECT s.rowid, s.id FROM amends.saga s
    WHERE s.owner_epoch = $1 AND EXISTS (SELECT FROM amends.mail m WHERE m.saga = s.rowid AND m.answer IS NULL)
    ORDER BY s.rowid LIMIT $2";

const ANSWER: &str = "SELECT answer FROM amends.mail WHERE id = $1";

#[async_trait]
impl Mailbox for PostgresStore {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], _: Time) -> Result<Option<u64>, Error> {
        let (id, input_id) = (id.as_str(), text(input_id));
        // One input is often posted again: this costs no write.
        let known: Params<'_> = &[&id, &input_id];
        if let Some(row) = self.pool.query_opt(Call::Reads, KNOWN, known).await? {
            return number(&row, 0).map(Some);
        }
        let row = match self.pool.query_opt(Call::Writes, POST, &[&id, &input_id, &body]).await? {
            Some(row) => Some(row),
            // There is no such saga, or somebody posted the same meanwhile.
            None => self.pool.query_opt(Call::Reads, KNOWN, known).await?,
        };
        row.map(|row| number(&row, 0)).transpose()
    }

    async fn waiting(&self, id: &SagaId, max: usize) -> Result<Vec<Mail>, Error> {
        let found = self.pool.query(Call::Reads, WAITING, &[&id.as_str(), &limit(max)]).await?;
        found
            .iter()
            .map(|row| Ok(Mail { id: number(row, 0)?, input_id: get(row, 1)?, body: get(row, 2)? }))
            .collect()
    }

    async fn mine(&self, lease: &NodeLease, max: usize) -> Result<Vec<Due>, Error> {
        let found = self.pool.query(Call::Reads, MINE, &[&sought(lease.epoch), &limit(max)]).await?;
        found.iter().map(due).collect()
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        let row = self.pool.query_opt(Call::Reads, ANSWER, &[&sought(mail)]).await?;
        row.map(|row| get(&row, 0)).transpose().map(Option::flatten)
    }
}
