//! Moving a saga. On the hot path, a step done and the next one enabled, this is one insert and nothing else.

use amends_core::{SagaId, Time};
use amends_store::{Advance, Advanced, Row};
use rusqlite::{Connection, params};

use crate::rows::{int, number, one, sought};
use crate::submit::{append, holder, owner, take};
use crate::writer::{Counted, Tx, counted};

pub(crate) const LAST: &str =
    "SELECT id, max(seq, coalesce((SELECT max(seq) FROM entry WHERE entry.saga = saga.rowid), 0))
    FROM saga WHERE rowid = ?1";

const RELEASE: &str = "DELETE FROM claim WHERE saga = ?1";

// The first answer stands: its poster may have read it.
const ANSWER: &str = "UPDATE mail SET answer = ?1 WHERE id = ?2 AND saga = ?3 AND answer IS NULL";

pub(crate) const OLDEST_MAIL: &str =
    "SELECT posted_at FROM mail WHERE saga = ?1 AND answer IS NULL ORDER BY id LIMIT 1";

const ROW: &str = "UPDATE saga SET status = ?2, business_state = ?3, seq = max(seq, ?4), step = ?5, operation = ?6, error_class = ?7,
        reason = ?8, contradictions = ?9, overdue = ?10, updated_at = ?11, ended_at = ?12, due_at = ?13, owner_node = ?14,
        owner_epoch = ?15, pruned = 0
    WHERE rowid = ?1";

/// Moves a saga, or says why not.
pub(crate) fn advance(tx: &mut Tx<'_>, item: &Advance) -> rusqlite::Result<Advanced> {
    let rowid = sought(item.rowid);
    if last(tx, item.rowid, &item.id)? != Some(item.after) {
        return Ok(Advanced::Conflict);
    }
    if let Some(holder) = holder(tx.conn, &item.take_claims, rowid)? {
        return Ok(Advanced::Held(Box::new(holder)));
    }
    if !item.entries.is_empty() {
        append(tx.conn, rowid, &item.entries, item.nonce)?;
    }
    let seq = item.entries.last().map_or(item.after, |entry| entry.seq);
    if item.release_claims {
        tx.conn.prepare_cached(RELEASE)?.execute([rowid])?;
    }
    take(tx.conn, &item.take_claims, rowid, item.at())?;
    for (mail, answer) in &item.mail {
        tx.conn.prepare_cached(ANSWER)?.execute(params![answer, sought(*mail), rowid])?;
    }
    if let Some(row) = &item.row {
        let due_at = due_with_mail(tx.conn, rowid, row)?;
        set_row(tx, rowid, row, seq, due_at)?;
    }
    tx.seqs.set(item.rowid, seq);
    Ok(Advanced::Committed)
}

/// The number of a saga's last entry, also when retention removed it.
fn last(tx: &Tx<'_>, rowid: u64, id: &SagaId) -> rusqlite::Result<Option<u64>> {
    if let Some(seq) = tx.seqs.get(rowid) {
        return Ok(Some(seq));
    }
    let found = one(tx.conn, LAST, [sought(rowid)], |row| Ok((row.get::<_, String>(0)?, number(row, 1)?)))?;
    Ok(found.filter(|(found, _)| found == id.as_str()).map(|(_, seq)| seq))
}

/// When a saga is due that is let go: at once if there is mail in its box that nothing else would wake it for.
fn due_with_mail(conn: &Connection, rowid: i64, row: &Row) -> rusqlite::Result<Option<Time>> {
    if row.owner.is_some() {
        return Ok(row.due_at);
    }
    let mail_at = one(conn, OLDEST_MAIL, [rowid], |row| row.get(0).map(Time))?;
    Ok([row.due_at, mail_at].into_iter().flatten().min())
}

/// Writes what of a row can change. What a saga was submitted with never does.
pub(crate) fn set_row(
    tx: &mut Tx<'_>,
    rowid: i64,
    row: &Row,
    seq: u64,
    due_at: Option<Time>,
) -> rusqlite::Result<()> {
    let Some((was_free, counted)) = counted(tx.conn, rowid)? else { return Ok(()) };
    let (node, epoch) = owner(row)?;
    tx.conn.prepare_cached(ROW)?.execute(params![
        rowid,
        row.status,
        row.business_state,
        int(seq)?,
        row.step,
        row.operation,
        row.error_class,
        row.reason,
        row.contradictions,
        row.overdue,
        row.updated_at.0,
        row.ended_at.map(|at| at.0),
        due_at.map(|at| at.0),
        node,
        epoch,
    ])?;
    let saga = counted.saga.clone();
    if was_free {
        tx.tally.lose(counted);
    }
    if row.owner.is_none() {
        tx.tally.gain(Counted { ended: row.ended_at.is_some(), status: row.status.clone(), saga });
    }
    Ok(())
}
