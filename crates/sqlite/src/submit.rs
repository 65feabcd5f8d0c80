//! Beginning a saga: everything is looked at first and written then.

use amends_core::Time;
use amends_store::batch::Arrived;
use amends_store::{Holder, StoredEntry, Submission, Submitted};
use rusqlite::{Connection, params};

use crate::intake;
use crate::rows::{self, COLUMNS, int, one};
use crate::writer::{Counted, Tx};

const KNOWN: &str = "SELECT fingerprint FROM saga WHERE id = ?1";

const SAGA: &str = "INSERT INTO saga (id, fingerprint, saga, definition_version, digest, status, business_state, seq, step,
        operation, error_class, reason, contradictions, overdue, created_at, updated_at, ended_at, due_at, owner_node, owner_epoch)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";

const ENTRY: &str = "INSERT INTO entry (saga, seq, nonce, at, keep, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

const HOLDER: &str = "SELECT saga, since FROM claim WHERE name = ?1";

// A saga may name a resource twice, or claim again what it holds.
const CLAIM: &str = "INSERT INTO claim (name, saga, since) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO NOTHING";

/// Submits a saga, or says why not.
pub(crate) fn submit(tx: &mut Tx<'_>, submission: &Submission) -> rusqlite::Result<Submitted> {
    let Submission { row, entries, claims, fingerprint, nonce } = submission;
    // Whose id it is comes first: a saga that is there already holds its claims itself.
    if let Some(known) = one(tx.conn, KNOWN, [row.id.as_str()], |row| row.get::<_, String>(0))? {
        return Ok(if known == *fingerprint { Submitted::Same } else { Submitted::Different });
    }
    // A caller's transaction that has committed came first.
    let arrived = intake::arrived(tx.conn, &row.id)?;
    if arrived.as_ref().is_some_and(|arrived| arrived.fingerprint != *fingerprint) {
        return Ok(Submitted::Different);
    }
    if let Some(holder) = holder(tx.conn, claims, 0)? {
        return Ok(Submitted::Held(Box::new(holder)));
    }
    if let Some(Arrived { number, fingerprint: _ }) = arrived {
        intake::remove(tx.conn, number)?;
    }
    let seq = entries.last().map_or(0, |entry| entry.seq);
    let (node, epoch) = owner(row)?;
    tx.conn.prepare_cached(SAGA)?.execute(params![
        row.id.as_str(),
        fingerprint,
        row.saga,
        int(row.definition_version)?,
        row.digest,
        row.status,
        row.business_state,
        int(seq)?,
        row.step,
        row.operation,
        row.error_class,
        row.reason,
        row.contradictions,
        row.overdue,
        row.created_at.0,
        row.updated_at.0,
        row.ended_at.map(|at| at.0),
        row.due_at.map(|at| at.0),
        node,
        epoch,
    ])?;
    let rowid = tx.conn.last_insert_rowid();
    take(tx.conn, claims, rowid, row.created_at)?;
    append(tx.conn, rowid, entries, *nonce)?;
    if row.owner.is_none() {
        let counted =
            Counted { ended: row.ended_at.is_some(), status: row.status.clone(), saga: row.saga.clone() };
        tx.tally.gain(counted);
    }
    // Rowids are never negative.
    let rowid = rowid.unsigned_abs();
    tx.seqs.set(rowid, seq);
    Ok(Submitted::Created(rowid))
}

/// Appends entries to a journal.
pub(crate) fn append(
    conn: &Connection,
    rowid: i64,
    entries: &[StoredEntry],
    nonce: u64,
) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached(ENTRY)?;
    for StoredEntry { seq, at, keep, body } in entries {
        insert.execute(params![rowid, int(*seq)?, nonce.cast_signed(), at.0, keep, body])?;
    }
    Ok(())
}

/// Who holds one of these claims, other than the saga `own`.
pub(crate) fn holder(conn: &Connection, claims: &[String], own: i64) -> rusqlite::Result<Option<Holder>> {
    for name in claims {
        let held: Option<(i64, i64)> = one(conn, HOLDER, [name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((rowid, since)) = held.filter(|(rowid, _)| *rowid != own) else { continue };
        let sql = format!("SELECT {COLUMNS} FROM saga WHERE rowid = ?1");
        let row = conn.prepare_cached(&sql)?.query_row([rowid], rows::row)?;
        return Ok(Some(Holder { claim: name.clone(), saga: row.id.clone(), since: Time(since), row }));
    }
    Ok(None)
}

/// Takes claims that nobody else holds.
pub(crate) fn take(conn: &Connection, claims: &[String], rowid: i64, since: Time) -> rusqlite::Result<()> {
    if claims.is_empty() {
        return Ok(());
    }
    let mut claim = conn.prepare_cached(CLAIM)?;
    for name in claims {
        claim.execute(params![name, rowid, since.0])?;
    }
    Ok(())
}

/// The two columns of an owner.
pub(crate) fn owner(row: &amends_store::Row) -> rusqlite::Result<(Option<&str>, Option<i64>)> {
    match &row.owner {
        Some((node, epoch)) => Ok((Some(node), Some(int(*epoch)?))),
        None => Ok((None, None)),
    }
}
