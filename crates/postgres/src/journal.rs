//! Sagas and their journals.

use amends_core::{SagaId, Time};
use amends_store::{Error, Item, Journal, Kind, Outcome, Row, Stored, StoredEntry};
use async_trait::async_trait;
use futures_util::future::join4;
use tokio::time::timeout;

use crate::PostgresStore;
use crate::error::{self, Call, store_error};
use crate::pool::ANSWER_MAX;
use crate::rows::{self, columns, get, limit, number, sought, text};

const NONCE: &str = "SELECT e.nonce FROM amends.entry e JOIN amends.saga s ON s.rowid = e.saga WHERE s.id = $1 AND e.seq = $2";

// What two statements of one transaction see is of one moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const ROW: &str = concat!("SELECT ", columns!(), " FROM amends.saga s WHERE s.id = $1");

const ENTRIES: &str = "SELECT e.seq, e.at, e.keep, e.body FROM amends.entry e
    WHERE e.saga = (SELECT rowid FROM amends.saga WHERE id = $1) AND e.seq > $2 ORDER BY e.seq LIMIT $3";

const PARK: &str = "UPDATE amends.saga SET status = $2, business_state = $3, step = $4, operation = $5, error_class = $6, reason = $7,
        contradictions = $8, overdue = $9, updated_at = $10, ended_at = $11, due_at = $12, owner_node = NULL, owner_epoch = NULL,
        pruned = false
    WHERE rowid = $1";

#[async_trait]
impl Journal for PostgresStore {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        self.commit_batch(&batch).await
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        // Before that, an entry that is not there may still come.
        self.unsure.settle(&self.pool).await?;
        let row = self.pool.query_opt(Call::Reads, NONCE, &[&id.as_str(), &sought(seq)]).await?;
        row.map(|row| Ok(get::<i64>(&row, 0)?.cast_unsigned() == nonce)).transpose()
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        self.load_whole(id).await.map_err(|error| about(id, error))
    }

    async fn entries(&self, id: &SagaId, after: u64, max: usize) -> Result<Vec<StoredEntry>, Error> {
        let params = (id.as_str(), sought(after), limit(max));
        let found = self.pool.query(Call::Reads, ENTRIES, &[&params.0, &params.1, &params.2]).await?;
        found.iter().map(entry).collect::<Result<_, _>>().map_err(|error| about(id, error))
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        let optional = |value: &Option<String>| value.as_deref().map(text);
        let time = |at: Option<Time>| at.map(|at| at.0);
        self.pool
            .query(
                Call::Writes,
                PARK,
                &[
                    &sought(row.rowid),
                    &text(&row.status),
                    &text(&row.business_state),
                    &optional(&row.step),
                    &optional(&row.operation),
                    &optional(&row.error_class),
                    &optional(&row.reason),
                    &i64::from(row.contradictions),
                    &row.overdue,
                    &row.updated_at.0,
                    &time(row.ended_at),
                    &time(row.due_at),
                ],
            )
            .await
            .map(drop)
    }
}

impl PostgresStore {
    async fn load_whole(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        let mut conn = self.pool.take().await?;
        let (row, entries) = (conn.prepare(ROW).await?, conn.prepare(ENTRIES).await?);
        let (id, all) = (id.as_str(), i64::MAX);
        let (row_params, entry_params): (crate::pool::Params<'_>, crate::pool::Params<'_>) =
            (&[&id], &[&id, &0_i64, &all]);
        let client = conn.client();
        let answers = join4(
            client.batch_execute(BEGIN),
            client.query_opt(&row, row_params),
            client.query(&entries, entry_params),
            client.batch_execute("COMMIT"),
        );
        let Ok((begun, row, entries, ended)) = timeout(ANSWER_MAX, answers).await else {
            return Err(error::unreachable("it does not answer"));
        };
        let sql = |e: tokio_postgres::Error| store_error(&e, Call::Reads);
        begun.map_err(sql)?;
        let (row, entries) = (row.map_err(sql)?, entries.map_err(sql)?);
        ended.map_err(sql)?;
        conn.done();
        let Some(row) = row else { return Ok(None) };
        let mut row = rows::row(&row)?;
        let entries = entries.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        // The column is only written together with others.
        row.seq = row.seq.max(entries.last().map_or(0, |entry| entry.seq));
        Ok(Some(Stored { row, entries }))
    }
}

fn entry(row: &tokio_postgres::Row) -> Result<StoredEntry, Error> {
    Ok(StoredEntry { seq: number(row, 0)?, at: Time(get(row, 1)?), keep: get(row, 2)?, body: get(row, 3)? })
}

/// Says which saga cannot be read.
fn about(id: &SagaId, error: Error) -> Error {
    match error.kind {
        Kind::Corrupt => Error::new(error.kind, format!("saga {id}: {}", error.message)),
        Kind::Unavailable | Kind::Indeterminate | Kind::Unwritable | Kind::Refused => error,
    }
}
