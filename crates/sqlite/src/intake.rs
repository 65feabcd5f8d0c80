//! Rows that other programs have inserted into `amends_submission` in transactions of their own.

use std::future::pending;

use amends_core::{SagaId, Time, json};
use amends_store::batch::Arrived;
use amends_store::{Arrival, Backlog, Error, Intake, Verdict};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use crate::SqliteStore;
use crate::rows::{all, limit, number, one, sought};

pub(crate) const ANY: &str = "SELECT 1 FROM amends_submission WHERE due_at <= ?1 LIMIT 1";

pub(crate) const DUE: &str = "SELECT number, saga, id, input, tries FROM amends_submission
    WHERE due_at <= ?1 ORDER BY due_at, number LIMIT ?2";

const HOLD: &str = "UPDATE amends_submission SET due_at = ?2 WHERE number = ?1";

const REMOVE: &str = "DELETE FROM amends_submission WHERE number = ?1";

const LATER: &str = "UPDATE amends_submission SET due_at = ?2, tries = tries + 1, reason = ?3 WHERE number = ?1 AND due_at IS NOT NULL";

const REFUSE: &str = "UPDATE amends_submission SET due_at = NULL, reason = ?2 WHERE number = ?1";

const RETRY: &str = "UPDATE amends_submission SET due_at = min(due_at, ?2) WHERE saga = ?1 AND tries > 0 AND due_at IS NOT NULL";

const BACKLOG: &str = "SELECT count(due_at), count(due_at) FILTER (WHERE tries > 0), count(*) - count(due_at) FROM amends_submission";

const EXAMPLE: &str = "SELECT id, reason FROM amends_submission WHERE reason IS NOT NULL ORDER BY due_at IS NOT NULL, number LIMIT 1";

// Refused ones keep nobody from their id.
pub(crate) const ARRIVED: &str =
    "SELECT number, saga, input FROM amends_submission WHERE id = ?1 AND due_at IS NOT NULL";

#[async_trait]
impl Intake for SqliteStore {
    async fn take(&self, now: Time, hold_ms: u64, max: usize) -> Result<Vec<Arrival>, Error> {
        // Mostly there is nothing, and a look by a reader is in nobody's way.
        let any = self.readers.read(move |conn| one(conn, ANY, [now.0], |row| row.get::<_, i64>(0))).await?;
        if any.is_none() {
            return Ok(Vec::new());
        }
        self.claiming(move |tx| {
            let due = all(tx.conn, DUE, params![now.0, limit(max)], arrival)?;
            let mut taken = Vec::new();
            for due in due {
                match due {
                    Ok(arrival) => {
                        let hold = params![sought(arrival.number), now.plus_ms(hold_ms).0];
                        tx.conn.prepare_cached(HOLD)?.execute(hold)?;
                        taken.push(arrival);
                    }
                    // What one program wrote wrongly must not keep others waiting.
                    Err((number, reason)) => {
                        tx.conn.prepare_cached(REFUSE)?.execute(params![sought(number), reason])?;
                    }
                }
            }
            taken.sort_unstable_by_key(|arrival| arrival.number);
            Ok(taken)
        })
        .await
    }

    async fn settle(&self, now: Time, verdicts: Vec<(u64, Verdict)>) -> Result<(), Error> {
        self.writer
            .write(move |tx| {
                for (number, verdict) in &verdicts {
                    match verdict {
                        Verdict::Adopted => remove(tx.conn, *number)?,
                        Verdict::PutOff { reason, again_ms } => {
                            let later = params![sought(*number), now.plus_ms(*again_ms).0, reason];
                            tx.conn.prepare_cached(LATER)?.execute(later)?;
                        }
                        Verdict::Refused { reason } => {
                            tx.conn.prepare_cached(REFUSE)?.execute(params![sought(*number), reason])?;
                        }
                    }
                }
                Ok(())
            })
            .await
    }

    async fn retry(&self, now: Time, saga: &str) -> Result<(), Error> {
        let saga = saga.to_owned();
        self.writer
            .write(move |tx| tx.conn.prepare_cached(RETRY)?.execute(params![saga, now.0]).map(drop))
            .await
    }

    async fn backlog(&self) -> Result<Backlog, Error> {
        self.readers
            .read(|conn| {
                let counts =
                    one(conn, BACKLOG, [], |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?)))?;
                let (waiting, put_off, refused) = counts.unwrap_or_default();
                let example = one(conn, EXAMPLE, [], |row| {
                    Ok((String::from_utf8_lossy(bytes(row, 0)?).into_owned(), row.get(1)?))
                })?;
                Ok(Backlog { waiting, put_off, refused, example })
            })
            .await
    }

    async fn knock(&self) {
        // Nobody tells one process what another has written.
        pending().await
    }
}

/// The row that waits for this id, if there is one.
pub(crate) fn arrived(conn: &Connection, id: &SagaId) -> rusqlite::Result<Option<Arrived>> {
    let row = one(conn, ARRIVED, [id.as_str()], |row| {
        Ok((number(row, 0)?, bytes(row, 1)?.to_owned(), bytes(row, 2)?.to_owned()))
    })?;
    Ok(row.map(|(number, saga, input)| {
        // What cannot be read is another submission than any that can.
        let fingerprint = serde_json::from_slice(&input)
            .map(|tree| json::fingerprint(&String::from_utf8_lossy(&saga), &tree))
            .unwrap_or_default();
        Arrived { number, fingerprint }
    }))
}

/// Removes a row: it has become a saga.
pub(crate) fn remove(conn: &Connection, number: u64) -> rusqlite::Result<()> {
    conn.prepare_cached(REMOVE)?.execute([sought(number)]).map(drop)
}

/// A row; or its number, and why it cannot be read.
type Read = Result<Arrival, (u64, String)>;

fn arrival(row: &Row<'_>) -> rusqlite::Result<Read> {
    let number = number(row, 0)?;
    let text = |column| Ok::<_, rusqlite::Error>(String::from_utf8(bytes(row, column)?.to_owned()));
    let tries = u32::try_from(row.get::<_, i64>(4)?).unwrap_or(u32::MAX);
    Ok(match (text(1)?, text(2)?, text(3)?) {
        (Ok(saga), Ok(id), Ok(input)) => Ok(Arrival { number, saga, id, input, by: "sql".to_owned(), tries }),
        (Err(_), _, _) | (_, Err(_), _) | (_, _, Err(_)) => {
            Err((number, "it is no UTF-8: the program that wrote it must encode its texts so".to_owned()))
        }
    })
}

/// A text as it is: other programs may have written anything.
fn bytes<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r [u8]> {
    Ok(row.get_ref(column)?.as_bytes()?)
}
