//! Lease locks: a row a lock, moved by the writer. The rules are those of the port's crate.

use std::sync::Arc;

use amends_core::Time;
use amends_store::Error;
use amends_store::locks::rules::{self, Ended, Record};
use amends_store::locks::{
    Acquired, Ask, Because, Hold, KEEP_MS, LastRelease, LockName, LockView, Locks, Release, Renewal, Ttl,
};
use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, named_params, params};

use crate::SqliteStore;
use crate::rows::{int, number, one, sought, time};

/// Rows that were not used for long and that each acquisition removes: more than it can add.
const FORGET_MAX: i64 = 2;

const LOCK: &str = "SELECT token, owner, label, since, expires_at, ended, last_token, last_outcome, last_kind, last_text, last_at
    FROM lock WHERE name = ?1";

const WRITE: &str = "INSERT OR REPLACE INTO lock
    (name, token, owner, label, since, expires_at, ended, last_token, last_outcome, last_kind, last_text, last_at)
    VALUES (:name, :token, :owner, :label, :since, :expires_at, :ended, :last_token, :last_outcome, :last_kind, :last_text, :last_at)";

const FLOOR: &str = "SELECT value FROM meta WHERE name = 'lock_floor'";

const OLD: &str = "SELECT name, token FROM lock WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2";

const RAISE_FLOOR: &str = "UPDATE meta SET value = max(value, ?1) WHERE name = 'lock_floor'";

#[async_trait]
impl Locks for SqliteStore {
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, Error> {
        let (ask, clock) = (ask.clone(), self.clock);
        let acquired = self.writer.write(move |tx| {
            let now = clock.now();
            forget_old(tx.conn, now)?;
            let mut record = read(tx.conn, &ask.name)?;
            let floor = tx.conn.prepare_cached(FLOOR)?.query_row([], |row| number(row, 0))?;
            let acquired = rules::acquire(&mut record, floor, &ask, now);
            if let Ok(Acquired::Held(_)) = acquired {
                write(tx.conn, &ask.name, record.as_ref())?;
            }
            Ok(acquired)
        });
        acquired.await?
    }

    async fn renew(&self, hold: &Hold, ttl: Ttl) -> Result<Renewal, Error> {
        let (hold, clock) = (hold.clone(), self.clock);
        self.writer
            .write(move |tx| {
                let mut record = read(tx.conn, &hold.name)?;
                let renewal = rules::renew(&mut record, &hold, ttl, clock.now());
                if let Renewal::Renewed { .. } = renewal {
                    write(tx.conn, &hold.name, record.as_ref())?;
                }
                Ok(renewal)
            })
            .await
    }

    async fn release(&self, hold: &Hold, because: &Because) -> Result<Release, Error> {
        let (hold, because, clock) = (hold.clone(), because.clone(), self.clock);
        self.writer
            .write(move |tx| {
                let mut record = read(tx.conn, &hold.name)?;
                let release = rules::release(&mut record, &hold, &because, clock.now());
                write(tx.conn, &hold.name, record.as_ref())?;
                Ok(release)
            })
            .await
    }

    async fn show(&self, name: &LockName) -> Result<LockView, Error> {
        let (name, clock) = (name.clone(), self.clock);
        let readers = Arc::clone(&self.readers);
        readers.read(move |conn| Ok(rules::view(read(conn, &name)?.as_ref(), clock.now()))).await
    }
}

/// Removes a few locks that nobody has used for long. Their tokens stay below the floor for ever.
fn forget_old(conn: &Connection, now: Time) -> rusqlite::Result<()> {
    let before = now.0.saturating_sub(i64::try_from(KEEP_MS).unwrap_or(i64::MAX));
    let old: Vec<(String, i64)> = {
        let mut statement = conn.prepare_cached(OLD)?;
        let rows = statement.query_map(params![before, FORGET_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for (name, token) in old {
        conn.prepare_cached(RAISE_FLOOR)?.execute([token])?;
        conn.prepare_cached("DELETE FROM lock WHERE name = ?1")?.execute([name])?;
    }
    Ok(())
}

fn read(conn: &Connection, name: &LockName) -> rusqlite::Result<Option<Record>> {
    one(conn, LOCK, [name.as_str()], record)
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let ended: Option<String> = row.get(5)?;
    let ended = ended.map(|word| Ended::parse(&word).ok_or_else(|| unreadable(5, &word))).transpose()?;
    let last_release = match row.get::<_, Option<i64>>(6)? {
        None => None,
        Some(_) => {
            let (kind, text): (String, String) = (row.get(8)?, row.get(9)?);
            let because = Because::from_parts(&kind, &text).ok_or_else(|| unreadable(8, &kind))?;
            Some(LastRelease { token: number(row, 6)?, outcome: row.get(7)?, because, at: time(row, 10)? })
        }
    };
    Ok(Record {
        token: number(row, 0)?,
        owner: row.get(1)?,
        label: row.get(2)?,
        since: time(row, 3)?,
        expires_at: time(row, 4)?,
        ended,
        last_release,
    })
}

fn unreadable(column: usize, word: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        Type::Text,
        format!("{word:?} is no word of a lock").into(),
    )
}

fn write(conn: &Connection, name: &LockName, record: Option<&Record>) -> rusqlite::Result<()> {
    let Some(record) = record else { return Ok(()) };
    let last = record.last_release.as_ref();
    let because = last.map(|last| last.because.parts());
    conn.prepare_cached(WRITE)?.execute(named_params! {
        ":name": name.as_str(),
        ":token": int(record.token)?,
        ":owner": record.owner,
        ":label": record.label,
        ":since": record.since.0,
        ":expires_at": record.expires_at.0,
        ":ended": record.ended.map(Ended::as_str),
        // A token that was shown and never given may be any number.
        ":last_token": last.map(|last| sought(last.token)),
        ":last_outcome": last.map(|last| last.outcome.as_str()),
        ":last_kind": because.map(|(kind, _)| kind),
        ":last_text": because.map(|(_, text)| text),
        ":last_at": last.map(|last| last.at.0),
    })?;
    Ok(())
}
