//! Lease locks: a row a lock, decided by the rules of the port's crate while nobody else looks at it.
//!
//! Of those who take a lock that has no row yet, one inserts it; the others meet it, and look again.

use amends_core::Time;
use amends_store::Error;
use amends_store::locks::rules::{self, Ended, Record};
use amends_store::locks::{
    Acquired, Ask, Because, Hold, KEEP_MS, LastRelease, LockName, LockView, Locks, Release, Renewal, Ttl,
};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::{Call, unreadable};
use crate::rows::{now_ms, number, number_opt, text, text_opt, time};
use crate::session::{Answer, Limits};
use crate::sql::{Script, Texts, Value, fill};

/// Rows that were not used for long and that each acquisition removes: more than it can add.
const FORGET_MAX: u64 = 2;

const BEGIN: &str = "START TRANSACTION";

macro_rules! lock {
    ($locking:literal) => {
        concat!(
            "SELECT token, owner, label, since, expires_at, ended, last_token, last_outcome, last_kind, last_text, last_at
                FROM amends_lock WHERE name = ?",
            $locking
        )
    };
}

const LOCK: &str = lock!(" FOR UPDATE");
const SHOW: &str = lock!("");

// Read after the row: what was forgotten has raised the floor. The time is that after the wait for the row.
const FLOOR: &str = concat!("SELECT ", now_ms!(), ", value FROM amends_lock_floor WHERE one = 1");

const INSERT: &str = "INSERT INTO amends_lock (token, owner, label, since, expires_at, ended, last_token, last_outcome, last_kind, last_text,
        last_at, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const UPDATE: &str = "UPDATE amends_lock SET token = ?, owner = ?, label = ?, since = ?, expires_at = ?, ended = ?, last_token = ?,
        last_outcome = ?, last_kind = ?, last_text = ?, last_at = ? WHERE name = ?";

macro_rules! old {
    ($locking:literal) => {
        concat!(
            "SELECT name, token FROM amends_lock FORCE INDEX (lock_expired) WHERE expires_at < ",
            now_ms!(),
            " - ? ORDER BY expires_at LIMIT ?",
            $locking
        )
    };
}

const IS_OLD: &str = old!("");
const OLD: &str = old!(" FOR UPDATE SKIP LOCKED");

const RAISE: &str = "UPDATE amends_lock_floor SET value = GREATEST(value, ?) WHERE one = 1";

const FORGET: &str = "DELETE l FROM amends_lock l FORCE INDEX (PRIMARY) WHERE l.name IN (?)";

#[async_trait]
impl Locks for MySqlStore {
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, Error> {
        self.forget().await?;
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
        let script = Script::of(&[&fill(SHOW, &[name.as_str().into()]), FLOOR]);
        let answers = self.pool.script(Call::Reads, &script).await?;
        let (record, _, now) = found(&answers)?;
        Ok(rules::view(record.as_ref(), now))
    }
}

impl MySqlStore {
    /// Does something with a record, in one step: it says whether the record is to be written.
    async fn with<T>(
        &self,
        name: &LockName,
        mut change: impl FnMut(&mut Option<Record>, u64, Time) -> (T, bool) + Send,
    ) -> Result<T, Error> {
        let name = name.as_str();
        let look = Script::of(&[BEGIN, &fill(LOCK, &[name.into()]), FLOOR]);
        let plan = |answers: Vec<Answer>, limits: Limits| {
            let (mut record, floor, now) = found(answers.get(1..).unwrap_or_default())?;
            let write = if record.is_some() { UPDATE } else { INSERT };
            let (answer, writes) = change(&mut record, floor, now);
            let mut texts = Texts::new(limits.packet_max);
            if let Some(record) = record.filter(|_| writes) {
                texts.push(&fill(write, &values(&record, name)))?;
            }
            Ok((answer, texts))
        };
        self.pool.transact(&look, plan).await.map(|(answer, _)| answer)
    }

    /// Removes a few rows that were not used for long. Their tokens are never given again, for the floor is at least as high.
    async fn forget(&self) -> Result<(), Error> {
        let keep_and_max = [KEEP_MS.into(), FORGET_MAX.into()];
        // Mostly there are none: this locks nothing.
        if self.pool.query(Call::Reads, &fill(IS_OLD, &keep_and_max)).await?.is_empty() {
            return Ok(());
        }
        let look = Script::of(&[BEGIN, &fill(OLD, &keep_and_max)]);
        let plan = |answers: Vec<Answer>, limits: Limits| {
            let old = answers.get(1).map_or(&[][..], |answer| &answer.rows);
            let names: Vec<String> = old.iter().map(|row| text(row, 0)).collect::<Result<_, _>>()?;
            let tokens: Vec<u64> = old.iter().map(|row| number(row, 1)).collect::<Result<_, _>>()?;
            let mut texts = Texts::new(limits.packet_max);
            if let Some(highest) = tokens.into_iter().max() {
                texts.push(&fill(RAISE, &[highest.into()]))?;
                texts.push(&fill(FORGET, &[Value::list(&names)]))?;
            }
            Ok(((), texts))
        };
        self.pool.transact(&look, plan).await.map(drop)
    }
}

fn values<'a>(record: &'a Record, name: &'a str) -> Vec<Value<'a>> {
    let last = record.last_release.as_ref();
    let because = last.map(|last| last.because.parts());
    vec![
        record.token.into(),
        (&record.owner).into(),
        (&record.label).into(),
        record.since.into(),
        record.expires_at.into(),
        record.ended.map(Ended::as_str).into(),
        last.map(|last| last.token).into(),
        last.map(|last| last.outcome.as_str()).into(),
        because.map(|(kind, _)| kind).into(),
        because.map(|(_, text)| text).into(),
        last.map(|last| last.at).into(),
        name.into(),
    ]
}

/// Reads what a lock's row and [`FLOOR`] gave: its record, the floor, and now.
fn found(answers: &[Answer]) -> Result<(Option<Record>, u64, Time), Error> {
    let first = |nth: usize| answers.get(nth).and_then(|answer| answer.rows.first());
    let floor = first(1).ok_or_else(|| unreadable("no floor of tokens"))?;
    let (now, floor) = (time(floor, 0)?, number(floor, 1)?);
    Ok((first(0).map(record).transpose()?, floor, now))
}

fn record(row: &mysql_async::Row) -> Result<Record, Error> {
    let word = |word: &str| unreadable(&format!("{word:?}, which is no word of a lock"));
    let ended = text_opt(row, 5)?;
    let ended = ended.map(|ended| Ended::parse(&ended).ok_or_else(|| word(&ended))).transpose()?;
    let last_release = match number_opt(row, 6)? {
        None => None,
        Some(token) => {
            let (kind, text_of) = (text(row, 8)?, text(row, 9)?);
            let because = Because::from_parts(&kind, &text_of).ok_or_else(|| word(&kind))?;
            Some(LastRelease { token, outcome: text(row, 7)?, because, at: time(row, 10)? })
        }
    };
    Ok(Record {
        token: number(row, 0)?,
        owner: text(row, 1)?,
        label: text(row, 2)?,
        since: time(row, 3)?,
        expires_at: time(row, 4)?,
        ended,
        last_release,
    })
}
