//! A batch of items, as one transaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use amends_store::batch::decide;
use amends_store::{Error, Item, Kind, Outcome};
use tokio::time::timeout;

use crate::PostgresStore;
use crate::look::look;
use crate::pool::{ANSWER_MAX, Pool, RACES_MAX};
use crate::unsure::Unsure;
use crate::write::{Undone, write};
use crate::{error, expected};

/// The longest pause before a batch that lost a race is tried again.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Numbers have one bit less here.
pub(crate) const NUMBER_MAX: u64 = i64::MAX.cast_unsigned();

impl PostgresStore {
    /// Commits a batch: all its items that can be, or none.
    pub(crate) async fn commit_batch(&self, batch: &[Item]) -> Vec<Outcome> {
        if batch.is_empty() {
            return Vec::new();
        }
        let mut races = 0;
        loop {
            // Whoever lost a race is told by a look what it lost.
            let expected = match races {
                0 => expected::commit(&self.pool, &self.unsure, batch).await,
                _ => Ok(None),
            };
            let tried = match expected {
                Ok(Some(outcomes)) => Ok(outcomes),
                Ok(None) => attempt(&self.pool, &self.unsure, batch).await,
                Err(undone) => Err(undone),
            };
            let error = match tried {
                Ok(outcomes) => {
                    self.commits.fetch_add(1, Ordering::Relaxed);
                    self.items.fetch_add(u64::try_from(batch.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
                    return outcomes;
                }
                Err(Undone::Race(_)) if races < RACES_MAX => {
                    races += 1;
                    // The first one is over by now; of many, one has got through each time.
                    tokio::time::sleep(PAUSE_MAX.min(Duration::from_millis(u64::from(races) - 1))).await;
                    continue;
                }
                Err(Undone::Race(error)) => Error::new(
                    Kind::Unavailable,
                    format!(
                        "others were quicker {RACES_MAX} times, nothing was written; try again ({error})"
                    ),
                ),
                Err(Undone::Failed(error) | Undone::Unknown(error)) => error,
            };
            self.pool.health.note(&error);
            return vec![Outcome::Failed(error); batch.len()];
        }
    }
}

/// Tries once, item by item. Dropped on its way, it may have committed or not.
async fn attempt(pool: &Pool, unsure: &Unsure, batch: &[Item]) -> Result<Vec<Outcome>, Undone> {
    let mut conn = pool.take().await.map_err(Undone::Failed)?;
    let look = match timeout(ANSWER_MAX, look(&mut conn, batch)).await {
        Ok(looked) => looked.map_err(Undone::Failed)?,
        Err(_) => return Err(Undone::Failed(error::unreachable("it does not answer"))),
    };
    let (outcomes, writes) = decide(batch, look, &pool.health.takes_work(), NUMBER_MAX);
    let done = match timeout(ANSWER_MAX, write(&mut conn, &writes)).await {
        Ok(done) => done,
        Err(_) => Err(Undone::Unknown(error::lost("it does not answer"))),
    };
    match done {
        Ok(()) => conn.done(),
        // Nothing depends on how a transaction ended that writes nothing.
        Err(_) if writes.is_empty() => {}
        Err(Undone::Unknown(error)) => {
            unsure.add(conn.session());
            return Err(Undone::Unknown(error));
        }
        // The connection is closed, for it may still be in the transaction.
        Err(undone @ (Undone::Race(_) | Undone::Failed(_))) => return Err(undone),
    }
    Ok(outcomes)
}
