//! How many sagas that nobody owns have which status, kept up in the transaction that changes it.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::rows::one;

/// What a saga is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Counted {
    pub(crate) ended: bool,
    pub(crate) status: String,
    pub(crate) saga: String,
}

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Tally(HashMap<Counted, i64>);

const CHANGE: &str = "INSERT INTO tally (ended, status, saga, count) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (ended, status, saga) DO UPDATE SET count = count + excluded.count";

const COUNTED: &str =
    "SELECT owner_epoch IS NULL, ended_at IS NOT NULL, status, saga FROM saga WHERE rowid = ?1";

/// What a saga is counted under, and whether it is: nobody owns it.
pub(crate) fn counted(conn: &Connection, rowid: i64) -> rusqlite::Result<Option<(bool, Counted)>> {
    one(conn, COUNTED, [rowid], |row| {
        Ok((row.get(0)?, Counted { ended: row.get(1)?, status: row.get(2)?, saga: row.get(3)? }))
    })
}

impl Tally {
    /// One more that nobody owns.
    pub(crate) fn gain(&mut self, counted: Counted) {
        *self.0.entry(counted).or_default() += 1;
    }

    /// One less.
    pub(crate) fn lose(&mut self, counted: Counted) {
        *self.0.entry(counted).or_default() -= 1;
    }

    /// Writes the changes: one row for each kind, however many sagas changed.
    pub(crate) fn flush(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut change = conn.prepare_cached(CHANGE)?;
        for (counted, by) in self.0.drain().filter(|(_, by)| *by != 0) {
            change.execute(params![counted.ended, counted.status, counted.saga, by])?;
        }
        Ok(())
    }

    /// Forgets them, because the transaction was undone.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
