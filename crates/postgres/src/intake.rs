//! Rows that callers have written by `amends.submit` in transactions of their own.

use amends_core::Time;
use amends_store::{Arrival, Backlog, Error, Intake, Verdict};
use async_trait::async_trait;

use crate::PostgresStore;
use crate::error::Call;
use crate::rows::{get, int, limit, number, sought, text};

// What another node is just taking is passed over. The rows are chosen once, as in `work`.
const TAKE: &str = "WITH due AS MATERIALIZED (
        SELECT number FROM amends.submission WHERE due_at <= amends.now_ms() ORDER BY due_at, number LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE amends.submission s SET due_at = amends.now_ms() + $1 FROM due WHERE s.number = due.number
    RETURNING s.number, s.saga, s.id, s.input::text, s.submitted_by, s.tries";

const ADOPTED: &str = "DELETE FROM amends.submission WHERE number = ANY($1)";

const LATER: &str = "UPDATE amends.submission s
    SET due_at = amends.now_ms() + u.again_ms, tries = s.tries + 1, reason = u.reason
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) u (number, again_ms, reason) WHERE s.number = u.number AND s.due_at IS NOT NULL";

const REFUSED: &str = "UPDATE amends.submission s SET due_at = NULL, reason = u.reason
    FROM unnest($1::bigint[], $2::text[]) u (number, reason) WHERE s.number = u.number";

const RETRY: &str = "UPDATE amends.submission SET due_at = least(due_at, amends.now_ms()) WHERE saga = $1 AND tries > 0 AND due_at IS NOT NULL";

const BACKLOG: &str = "SELECT count(due_at), count(due_at) FILTER (WHERE tries > 0), count(*) - count(due_at) FROM amends.submission";

const EXAMPLE: &str = "SELECT id, reason FROM amends.submission WHERE reason IS NOT NULL ORDER BY due_at IS NOT NULL, number LIMIT 1";

/// The most that one call takes: their rows stay locked while it does.
const TAKE_MAX: usize = 1_000;

#[async_trait]
impl Intake for PostgresStore {
    async fn take(&self, _: Time, hold_ms: u64, max: usize) -> Result<Vec<Arrival>, Error> {
        self.pool.health.takes_work()?;
        let taken =
            self.pool.query(Call::Writes, TAKE, &[&sought(hold_ms), &limit(max.min(TAKE_MAX))]).await?;
        let mut taken = taken.iter().map(arrival).collect::<Result<Vec<_>, _>>()?;
        taken.sort_unstable_by_key(|arrival| arrival.number);
        Ok(taken)
    }

    async fn settle(&self, _: Time, verdicts: Vec<(u64, Verdict)>) -> Result<(), Error> {
        let (mut adopted, mut later, mut refused) = (Vec::new(), Later::default(), Refused::default());
        for (number, verdict) in verdicts {
            let number = int(number)?;
            match verdict {
                Verdict::Adopted => adopted.push(number),
                Verdict::PutOff { reason, again_ms } => {
                    later.0.push(number);
                    later.1.push(sought(again_ms));
                    later.2.push(text(&reason));
                }
                Verdict::Refused { reason } => {
                    refused.0.push(number);
                    refused.1.push(text(&reason));
                }
            }
        }
        if !adopted.is_empty() {
            self.pool.query(Call::Writes, ADOPTED, &[&adopted]).await?;
        }
        if !later.0.is_empty() {
            self.pool.query(Call::Writes, LATER, &[&later.0, &later.1, &later.2]).await?;
        }
        if !refused.0.is_empty() {
            self.pool.query(Call::Writes, REFUSED, &[&refused.0, &refused.1]).await?;
        }
        Ok(())
    }

    async fn retry(&self, _: Time, saga: &str) -> Result<(), Error> {
        self.pool.query(Call::Writes, RETRY, &[&saga]).await.map(drop)
    }

    async fn backlog(&self) -> Result<Backlog, Error> {
        let counts = self.pool.query(Call::Reads, BACKLOG, &[]).await?;
        let count = |column| counts.first().map_or(Ok(0), |row| number(row, column));
        let example = self.pool.query_opt(Call::Reads, EXAMPLE, &[]).await?;
        let example = example.map(|row| Ok::<_, Error>((get(&row, 0)?, get(&row, 1)?))).transpose()?;
        Ok(Backlog { waiting: count(0)?, put_off: count(1)?, refused: count(2)?, example })
    }

    async fn knock(&self) {
        self.knocks.heard(&self.pool).await;
    }
}

type Later = (Vec<i64>, Vec<i64>, Vec<String>);
type Refused = (Vec<i64>, Vec<String>);

fn arrival(row: &tokio_postgres::Row) -> Result<Arrival, Error> {
    Ok(Arrival {
        number: number(row, 0)?,
        saga: get(row, 1)?,
        id: get(row, 2)?,
        input: get(row, 3)?,
        by: get(row, 4)?,
        tries: u32::try_from(number(row, 5)?).unwrap_or(u32::MAX),
    })
}
