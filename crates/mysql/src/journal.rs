//! Sagas and their journals.

use amends_core::SagaId;
use amends_store::{Error, Item, Journal, Kind, Outcome, Row, Stored, StoredEntry};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::Call;
use crate::rows::{self, bytes, columns, number, time};
use crate::sql::{Script, fill};
use crate::write::changing;

const NONCE: &str =
    "SELECT e.nonce FROM amends_entry e JOIN amends_saga s ON s.rowid = e.saga WHERE s.id = ? AND e.seq = ?";

// What two statements of one transaction see is of one moment.
const MOMENT: [&str; 2] = [
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
];

const ROW: &str = concat!("SELECT ", columns!(), " FROM amends_saga s WHERE s.id = ?");

const ENTRIES: &str = "SELECT e.seq, e.at, e.keep, e.body FROM amends_entry e
    WHERE e.saga = (SELECT rowid FROM amends_saga WHERE id = ?) AND e.seq > ? ORDER BY e.seq LIMIT ?";

// `seq` comes third among what changes, and is left as it is.
const PARK: &str = "UPDATE amends_saga SET status = ?, business_state = ?, seq = GREATEST(seq, ?), step = ?, operation = ?, error_class = ?,
        reason = ?, contradictions = ?, overdue = ?, updated_at = ?, ended_at = ?, due_at = ?, owner_node = ?, owner_epoch = ?, prune_at = ?
    WHERE rowid = ?";

#[async_trait]
impl Journal for MySqlStore {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        self.commit_batch(&batch).await
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        // Before that, an entry that is not there may still come.
        self.unsure.settle(&self.pool).await?;
        let row = self.pool.query_opt(Call::Reads, &fill(NONCE, &[id.as_str().into(), seq.into()])).await?;
        row.map(|row| Ok(number(&row, 0)? == nonce)).transpose()
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        self.load_whole(id).await.map_err(|error| about(id, error))
    }

    async fn entries(&self, id: &SagaId, after: u64, max: usize) -> Result<Vec<StoredEntry>, Error> {
        let found = self.pool.query(Call::Reads, &entries(id, after, max)).await?;
        found.iter().map(entry).collect::<Result<_, _>>().map_err(|error| about(id, error))
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        let nobodys = Row { owner: None, ..row };
        let mut values = changing(&nobodys, 0);
        values.push(nobodys.rowid.into());
        self.pool.query(Call::Writes, &fill(PARK, &values)).await.map(drop)
    }
}

impl MySqlStore {
    async fn load_whole(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        let mut script = Script::of(&MOMENT);
        script.push(&fill(ROW, &[id.as_str().into()]));
        script.push(&entries(id, 0, usize::MAX));
        script.push("COMMIT");
        let answers = self.pool.script(Call::Reads, &script).await?;
        let found = |nth: usize| answers.get(nth).map_or(&[][..], |answer| &answer.rows);
        let Some(row) = found(2).first() else { return Ok(None) };
        let mut row = rows::row(row)?;
        let entries = found(3).iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        // The column is only written together with others.
        row.seq = row.seq.max(entries.last().map_or(0, |entry| entry.seq));
        Ok(Some(Stored { row, entries }))
    }
}

fn entries(id: &SagaId, after: u64, max: usize) -> String {
    fill(ENTRIES, &[id.as_str().into(), after.into(), rows::limit(max).into()])
}

fn entry(row: &mysql_async::Row) -> Result<StoredEntry, Error> {
    Ok(StoredEntry {
        seq: number(row, 0)?,
        at: time(row, 1)?,
        keep: number(row, 2)? != 0,
        body: bytes(row, 3)?.to_vec(),
    })
}

/// Says which saga cannot be read.
fn about(id: &SagaId, error: Error) -> Error {
    match error.kind {
        Kind::Corrupt => Error::new(error.kind, format!("saga {id}: {}", error.message)),
        Kind::Unavailable | Kind::Indeterminate | Kind::Unwritable | Kind::Refused => error,
    }
}
