//! Retention: ids stay for ever, journals and payloads do not.

use amends_core::Time;
use amends_store::{Error, Retention};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::rows::{limit, number};
use crate::session::{Answer, Limits};
use crate::sql::{Script, Texts, Value, fill};

/// What one call removes at most: short transactions keep little locked.
const PRUNE_MAX: usize = 200;

const BEGIN: &str = "START TRANSACTION";

// A saga that a commit has locked is left for later.
const ENDED: &str = "SELECT rowid FROM amends_saga FORCE INDEX (saga_prune) WHERE prune_at < ?
    ORDER BY prune_at LIMIT ? FOR UPDATE SKIP LOCKED";

// The last entry's number must survive the entry.
const MARK: &str =
    "UPDATE amends_saga FORCE INDEX (PRIMARY) SET prune_at = NULL, seq = GREATEST(seq, COALESCE((
        SELECT e.seq FROM amends_entry e WHERE e.saga = amends_saga.rowid ORDER BY e.seq DESC LIMIT 1), 0))
    WHERE rowid IN (?)";

const REMOVE: &str = "DELETE e FROM amends_entry e FORCE INDEX (PRIMARY) WHERE e.saga IN (?) AND e.keep = 0";

const ANSWERED: &str = "SELECT id FROM amends_mail FORCE INDEX (mail_prune) WHERE prune_at < ?
    ORDER BY prune_at LIMIT ? FOR UPDATE SKIP LOCKED";

const FORGET: &str = "DELETE m FROM amends_mail m FORCE INDEX (PRIMARY) WHERE m.id IN (?)";

#[async_trait]
impl Retention for MySqlStore {
    async fn prune(&self, ended_before: Time, max: usize) -> Result<usize, Error> {
        let max = max.min(PRUNE_MAX);
        let sagas = self.remove(ENDED, &[MARK, REMOVE], ended_before, max).await?;
        let mails = self.remove(ANSWERED, &[FORGET], ended_before, max.saturating_sub(sagas)).await?;
        Ok(sagas + mails)
    }
}

impl MySqlStore {
    /// Finds and locks, then removes. Gives how many there were.
    async fn remove(&self, find: &str, remove: &[&str], before: Time, max: usize) -> Result<usize, Error> {
        let look = Script::of(&[BEGIN, &fill(find, &[before.into(), limit(max).into()])]);
        let plan = |answers: Vec<Answer>, limits: Limits| {
            let found = answers.get(1).map_or(&[][..], |answer| &answer.rows);
            let numbers: Vec<u64> = found.iter().map(|row| number(row, 0)).collect::<Result<_, _>>()?;
            let mut texts = Texts::new(limits.packet_max);
            for sql in remove.iter().filter(|_| !numbers.is_empty()) {
                texts.push(&fill(sql, &[Value::list(numbers.iter().copied())]))?;
            }
            Ok((numbers.len(), texts))
        };
        self.pool.transact(&look, plan).await.map(|(count, _)| count)
    }
}
