//! Lease locks: a row a lock, decided by the rules of the port's crate while nobody else looks at it.

use amends_core::Time;
use amends_store::Error;
use amends_store::locks::rules::{self, Ended, Record};
use amends_store::locks::{
    Acquired, Ask, Because, Hold, KEEP_MS, LastRelease, LockName, LockView, Locks, Release, Renewal, Ttl,
};
use async_trait::async_trait;
use futures_util::future::{join, join3};
use tokio::time::timeout;

use crate::PostgresStore;
use crate::error::{self, Call, store_error, unreadable};
use crate::pool::{ANSWER_MAX, Params};
use crate::rows::{get, int, number, sought};
use crate::write::{Undone, ended};

/// Rows that were not used for long and that each acquisition removes: more than it can add.
const FORGET_MAX: i64 = 2;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

// Until the transaction ends, also for a lock that has no row yet. Two names of one hash wait for each other, and that is all.
const ENTER: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

// The floor and the row are of one moment: what was forgotten has raised the floor. The time is that after the wait.
const READ: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, f.value, l.token, l.owner, l.label, l.since, l.expires_at,
        l.ended, l.last_token, l.last_outcome, l.last_kind, l.last_text, l.last_at
    FROM amends.lock_floor f LEFT JOIN amends.lock l ON l.name = $1";

const WRITE: &str = "INSERT INTO amends.lock
        (name, token, owner, label, since, expires_at, ended, last_token, last_outcome, last_kind, last_text, last_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner, label = excluded.label, since = excluded.since,
        expires_at = excluded.expires_at, ended = excluded.ended, last_token = excluded.last_token, last_outcome = excluded.last_outcome,
        last_kind = excluded.last_kind, last_text = excluded.last_text, last_at = excluded.last_at";

const FORGET: &str = "WITH old AS MATERIALIZED (
        SELECT name, token FROM amends.lock WHERE expires_at < amends.now_ms() - $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), forgotten AS (
        DELETE FROM amends.lock l USING old WHERE l.name = old.name RETURNING l.token
    )
    UPDATE amends.lock_floor SET value = greatest(value, (SELECT max(token) FROM forgotten)) WHERE EXISTS (SELECT FROM old)";

#[async_trait]
impl Locks for PostgresStore {
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, Error> {
        let keep_ms = int(KEEP_MS)?;
        self.pool.query(Call::Reads, FORGET, &[&keep_ms, &FORGET_MAX]).await?;
        self.with(&ask.name, |record, floor, now| {
            let acquired = rules::acquire(record, floor, ask, now);
            let writes = matches!(acquired, Ok(Acquired::Held(_)));
            (acquired, writes)
        })
        .await?
    }

    async fn renew(&self, hold: &Hold, ttl: Ttl) -> Result<Renewal, Error> {
        self.with(&hold.name, |record, _, now| {
            let renewal = rules::renew(record, hold, ttl, now);
            (renewal, matches!(renewal, Renewal::Renewed { .. }))
        })
        .await
    }

    async fn release(&self, hold: &Hold, because: &Because) -> Result<Release, Error> {
        self.with(&hold.name, |record, _, now| (rules::release(record, hold, because, now), true)).await
    }

    async fn show(&self, name: &LockName) -> Result<LockView, Error> {
        let row = self.pool.query_opt(Call::Reads, READ, &[&name.as_str()]).await?;
        let (now, _, record) = record(&row.ok_or_else(|| unreadable("no lock_floor"))?)?;
        Ok(rules::view(record.as_ref(), now))
    }
}

impl PostgresStore {
    /// Does something with a record, in one step: it says whether the record is to be written.
    async fn with<T>(
        &self,
        name: &LockName,
        change: impl FnOnce(&mut Option<Record>, u64, Time) -> (T, bool) + Send,
    ) -> Result<T, Error> {
        let done = match timeout(ANSWER_MAX, self.change(name, change)).await {
            Ok(done) => done,
            // It may have come to its COMMIT.
            Err(_) => Err(error::lost("it does not answer")),
        };
        done.inspect_err(|error| self.pool.health.note(error))
    }

    async fn change<T>(
        &self,
        name: &LockName,
        change: impl FnOnce(&mut Option<Record>, u64, Time) -> (T, bool) + Send,
    ) -> Result<T, Error> {
        let name = name.as_str();
        let mut conn = self.pool.take().await?;
        let (enter, read, write) =
            (conn.prepare(ENTER).await?, conn.prepare(READ).await?, conn.prepare(WRITE).await?);
        let sql = |e: tokio_postgres::Error| store_error(&e, Call::Reads);
        let named: Params<'_> = &[&name];
        let client = conn.client();
        let asked =
            join3(client.batch_execute(BEGIN), client.query(&enter, named), client.query_one(&read, named));
        let (begun, entered, found) = asked.await;
        begun.map_err(sql)?;
        entered.map_err(sql)?;
        let (now, floor, mut record) = record(&found.map_err(sql)?)?;
        let (answer, writes) = change(&mut record, floor, now);
        let Some(record) = record.filter(|_| writes) else {
            client.batch_execute("ROLLBACK").await.map_err(sql)?;
            conn.done();
            return Ok(answer);
        };
        let last = record.last_release.as_ref();
        let because = last.map(|last| last.because.parts());
        let token = int(record.token)?;
        let ended_word = record.ended.map(Ended::as_str);
        // A token that was shown and never given may be any number.
        let last_token = last.map(|last| sought(last.token));
        let (outcome, at) = (last.map(|last| last.outcome.as_str()), last.map(|last| last.at.0));
        let (kind, text) = (because.map(|(kind, _)| kind), because.map(|(_, text)| text));
        let values: Params<'_> = &[
            &name,
            &token,
            &record.owner,
            &record.label,
            &record.since.0,
            &record.expires_at.0,
            &ended_word,
            &last_token,
            &outcome,
            &kind,
            &text,
            &at,
        ];
        let (written, committed) = join(client.execute(&write, values), client.batch_execute("COMMIT")).await;
        match ended(written.err(), committed) {
            Ok(()) => {
                conn.done();
                Ok(answer)
            }
            Err(Undone::Race(error) | Undone::Failed(error) | Undone::Unknown(error)) => Err(error),
        }
    }
}

/// Reads what [`READ`] gives: now, the floor, and the lock's record.
fn record(row: &tokio_postgres::Row) -> Result<(Time, u64, Option<Record>), Error> {
    let (now, floor) = (Time(get(row, 0)?), number(row, 1)?);
    if get::<Option<i64>>(row, 2)?.is_none() {
        return Ok((now, floor, None));
    }
    let word = |word: &str| unreadable(&format!("{word:?}, which is no word of a lock"));
    let ended: Option<String> = get(row, 7)?;
    let ended = ended.map(|ended| Ended::parse(&ended).ok_or_else(|| word(&ended))).transpose()?;
    let last_release = match get::<Option<i64>>(row, 8)? {
        None => None,
        Some(_) => {
            let (kind, text): (String, String) = (get(row, 10)?, get(row, 11)?);
            let because = Because::from_parts(&kind, &text).ok_or_else(|| word(&kind))?;
            Some(LastRelease {
                token: number(row, 8)?,
                outcome: get(row, 9)?,
                because,
                at: Time(get(row, 12)?),
            })
        }
    };
    let record = Record {
        token: number(row, 2)?,
        owner: get(row, 3)?,
        label: get(row, 4)?,
        since: Time(get(row, 5)?),
        expires_at: Time(get(row, 6)?),
        ended,
        last_release,
    };
    Ok((now, floor, Some(record)))
}
