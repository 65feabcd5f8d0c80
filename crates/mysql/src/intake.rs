//! Rows that callers have written by `amends_submit` in transactions of their own.

use std::future::pending;

use amends_core::{Time, json};
use amends_store::batch::Arrived;
use amends_store::{Arrival, Backlog, Error, Intake, Verdict};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::Call;
use crate::rows::{bytes, limit, now_ms, number, text};
use crate::session::{Answer, Limits};
use crate::sql::{Script, Texts, Value, fill};

/// The most that one call takes: their rows stay locked while it does.
const TAKE_MAX: usize = 1_000;

// Mostly there is nothing, and a look locks nothing.
const ANY: &str = concat!(
    "SELECT 1 FROM amends_submission FORCE INDEX (submission_due) WHERE due_at <= ",
    now_ms!(),
    " LIMIT 1"
);

// What another node is just taking is passed over.
const DUE: &str = concat!(
    "SELECT number, saga, id, input, submitted_by, tries FROM amends_submission FORCE INDEX (submission_due) WHERE due_at <= ",
    now_ms!(),
    " ORDER BY due_at, number LIMIT ? FOR UPDATE SKIP LOCKED"
);

const HOLD: &str = concat!(
    "UPDATE amends_submission FORCE INDEX (PRIMARY) SET due_at = ",
    now_ms!(),
    " + ? WHERE number IN (?)"
);

pub(crate) const ADOPTED: &str =
    "DELETE s FROM amends_submission s FORCE INDEX (PRIMARY) WHERE s.number IN (?)";

const LATER: &str = concat!(
    "UPDATE amends_submission SET due_at = ",
    now_ms!(),
    " + ?, tries = tries + 1, reason = ? WHERE number = ? AND due_at IS NOT NULL"
);

const REFUSED: &str = "UPDATE amends_submission SET due_at = NULL, reason = ? WHERE number = ?";

const RETRY: &str = concat!(
    "UPDATE amends_submission SET due_at = LEAST(due_at, ",
    now_ms!(),
    ") WHERE saga = ? AND tries > 0 AND due_at IS NOT NULL"
);

const BACKLOG: &str = "SELECT COUNT(due_at), COUNT(IF(tries > 0, due_at, NULL)), COUNT(*) - COUNT(due_at) FROM amends_submission";

const EXAMPLE: &str = "SELECT id, reason FROM amends_submission WHERE reason IS NOT NULL ORDER BY due_at IS NOT NULL, number LIMIT 1";

// Refused ones keep nobody from their id.
pub(crate) const ARRIVED: &str =
    "SELECT id, number, saga, input FROM amends_submission WHERE id IN (?) AND due_at IS NOT NULL";

#[async_trait]
impl Intake for MySqlStore {
    async fn take(&self, _: Time, hold_ms: u64, max: usize) -> Result<Vec<Arrival>, Error> {
        self.pool.health.takes_work()?;
        if self.pool.query_opt(Call::Reads, ANY).await?.is_none() {
            return Ok(Vec::new());
        }
        let due = fill(DUE, &[limit(max.min(TAKE_MAX)).into()]);
        let look = Script::of(&["START TRANSACTION", &due]);
        let plan = |answers: Vec<Answer>, limits: Limits| {
            let rows = answers.get(1).map_or(&[][..], |answer| &answer.rows);
            let taken: Vec<Arrival> = rows.iter().map(arrival).collect::<Result<_, _>>()?;
            let mut texts = Texts::new(limits.packet_max);
            if !taken.is_empty() {
                let numbers = Value::list(taken.iter().map(|arrival| arrival.number));
                texts.push(&fill(HOLD, &[hold_ms.into(), numbers]))?;
            }
            Ok((taken, texts))
        };
        let (mut taken, _) = self.pool.transact(&look, plan).await?;
        taken.sort_unstable_by_key(|arrival| arrival.number);
        Ok(taken)
    }

    async fn settle(&self, _: Time, verdicts: Vec<(u64, Verdict)>) -> Result<(), Error> {
        let mut adopted = Vec::new();
        for (number, verdict) in &verdicts {
            let told = match verdict {
                Verdict::Adopted => {
                    adopted.push(*number);
                    continue;
                }
                Verdict::PutOff { reason, again_ms } => {
                    fill(LATER, &[(*again_ms).into(), reason.into(), (*number).into()])
                }
                Verdict::Refused { reason } => fill(REFUSED, &[reason.into(), (*number).into()]),
            };
            self.pool.one(Call::Writes, &told).await?;
        }
        if !adopted.is_empty() {
            self.pool.one(Call::Writes, &fill(ADOPTED, &[Value::list(adopted)])).await?;
        }
        Ok(())
    }

    async fn retry(&self, _: Time, saga: &str) -> Result<(), Error> {
        self.pool.one(Call::Writes, &fill(RETRY, &[saga.into()])).await.map(drop)
    }

    async fn backlog(&self) -> Result<Backlog, Error> {
        let counts = self.pool.query_opt(Call::Reads, BACKLOG).await?;
        let count = |column| counts.as_ref().map_or(Ok(0), |row| number(row, column));
        let example = self.pool.query_opt(Call::Reads, EXAMPLE).await?;
        let example = example.map(|row| Ok::<_, Error>((text(&row, 0)?, text(&row, 1)?))).transpose()?;
        Ok(Backlog { waiting: count(0)?, put_off: count(1)?, refused: count(2)?, example })
    }

    async fn knock(&self) {
        // The server has nothing to tell one session what another has committed.
        pending().await
    }
}

fn arrival(row: &mysql_async::Row) -> Result<Arrival, Error> {
    Ok(Arrival {
        number: number(row, 0)?,
        saga: text(row, 1)?,
        id: text(row, 2)?,
        input: text(row, 3)?,
        by: text(row, 4)?,
        tries: u32::try_from(number(row, 5)?).unwrap_or(u32::MAX),
    })
}

/// Reads a row that waits: its id, and what it is compared by.
pub(crate) fn arrived(row: &mysql_async::Row) -> Result<(String, Arrived), Error> {
    // What cannot be read is another submission than any that can.
    let tree = serde_json::from_slice(bytes(row, 3)?);
    let saga = text(row, 2)?;
    let fingerprint = tree.map(|tree| json::fingerprint(&saga, &tree)).unwrap_or_default();
    Ok((text(row, 0)?, Arrived { number: number(row, 1)?, fingerprint }))
}
