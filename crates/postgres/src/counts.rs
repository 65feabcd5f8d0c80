//! Counts for people. What is open is counted each time, which costs what is open; what has ended only ever gets more, and where that
//! is much it is counted as often as its counting is cheap.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use amends_core::{Status, Time};
use amends_store::{Error, Stats};
use tokio::sync::Mutex;

use crate::error::Call;
use crate::pool::Pool;
use crate::rows::{get, number};

/// Up to so many that ended are counted anew each time: some milliseconds. By number and not by time, so that a small store is exact on a busy
/// machine too.
const FEW: u64 = 20_000;
/// The count of more is remembered for so many times as long as it took: no more than a twentieth of a connection is spent on it.
const REMEMBERED: u32 = 20;

// The words are in the statement, so that the plan is made for these and not for any: a scan of what they index.
const OPEN: &str = "SELECT ended_at IS NOT NULL, status, saga, count(*), min(created_at) FROM amends.saga
    WHERE status IN ('accepting', 'running', 'compensating', 'unknown', 'dead') GROUP BY 1, 2, 3";

/// All words that are in use, by a seek each: another version may have more.
const WORDS: &str = "WITH RECURSIVE word (status) AS (
        (SELECT status FROM amends.saga ORDER BY status LIMIT 1)
        UNION ALL
        SELECT (SELECT s.status FROM amends.saga s WHERE s.status > word.status ORDER BY s.status LIMIT 1)
        FROM word WHERE word.status IS NOT NULL
    )
    SELECT status FROM word WHERE status IS NOT NULL";

const OTHERS: &str = "SELECT ended_at IS NOT NULL, status, saga, count(*), min(created_at) FROM amends.saga
    WHERE status = ANY($1) GROUP BY 1, 2, 3";

const ENDED: &str = "SELECT status, count(*) FROM amends.saga WHERE status = ANY($1) GROUP BY status";

const DUE: &str = "SELECT count(*), min(due_at) FROM amends.saga
    WHERE owner_epoch IS NULL AND due_at IS NOT NULL AND due_at <= amends.now_ms()";

const LAPSED: &str = "SELECT count(*) FROM amends.saga s WHERE s.owner_epoch IS NOT NULL AND NOT EXISTS (
        SELECT FROM amends.node WHERE node.epoch = s.owner_epoch AND node.expires_at > amends.now_ms())";

const CONTRADICTED: &str = "SELECT count(*) FROM amends.saga WHERE contradictions > 0";

/// How many have ended, as of the last count.
#[derive(Debug, Default)]
pub(crate) struct Ended(Mutex<Option<Counted>>);

#[derive(Debug)]
struct Counted {
    by_status: BTreeMap<String, u64>,
    stands_until: Instant,
}

impl Ended {
    /// By status. Whoever comes while they are counted waits for the same count.
    async fn count(&self, pool: &Pool, words: &[&str]) -> Result<BTreeMap<String, u64>, Error> {
        let mut counted = self.0.lock().await;
        let began = Instant::now();
        if let Some(counted) = counted.as_ref().filter(|counted| began < counted.stands_until) {
            return Ok(counted.by_status.clone());
        }
        let rows = pool.query(Call::Reads, ENDED, &[&words]).await?;
        let by_status = rows
            .iter()
            .map(|row| Ok((get(row, 0)?, number(row, 1)?)))
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        let took = began.elapsed();
        let remembered =
            if by_status.values().sum::<u64>() > FEW { took * REMEMBERED } else { Duration::ZERO };
        *counted = Some(Counted { by_status: by_status.clone(), stands_until: began + took + remembered });
        Ok(by_status)
    }
}

/// All counts.
pub(crate) async fn stats(pool: &Pool, ended: &Ended) -> Result<Stats, Error> {
    let ending = Status::ALL.into_iter().filter(|status| status.has_ended());
    let ending: Vec<&str> = ending.map(Status::as_str).collect();
    let mut by_status = ended.count(pool, &ending).await?;
    let mut open = BTreeMap::new();
    let mut stats = Stats::default();
    let mut rows = pool.query(Call::Reads, OPEN, &[]).await?;
    let words = pool.query(Call::Reads, WORDS, &[]).await?;
    let words = words.iter().map(|row| get(row, 0)).collect::<Result<Vec<String>, _>>()?;
    let others: Vec<String> = words.into_iter().filter(|word| Status::parse(word).is_none()).collect();
    if !others.is_empty() {
        rows.extend(pool.query(Call::Reads, OTHERS, &[&others]).await?);
    }
    for row in rows {
        let (status, count): (String, u64) = (get(&row, 1)?, number(&row, 3)?);
        if get(&row, 0)? {
            // It ended, and its journal could not be read since.
            *by_status.entry(status).or_default() += count;
        } else {
            *open.entry((status, get::<String>(&row, 2)?)).or_default() += count;
            let oldest = Some(Time(get(&row, 4)?));
            stats.oldest_open = [stats.oldest_open, oldest].into_iter().flatten().min();
        }
    }
    for row in pool.query(Call::Reads, DUE, &[]).await? {
        stats.due = number(&row, 0)?;
        stats.oldest_due = get::<Option<i64>>(&row, 1)?.map(Time);
    }
    for row in pool.query(Call::Reads, LAPSED, &[]).await? {
        stats.due += number(&row, 0)?;
    }
    for row in pool.query(Call::Reads, CONTRADICTED, &[]).await? {
        stats.contradictions = number(&row, 0)?;
    }
    stats.open = open.into_iter().map(|((status, saga), count)| (status, saga, count)).collect();
    stats.ended = by_status.into_iter().collect();
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_counted_once() {
        for status in Status::ALL {
            assert_ne!(OPEN.contains(&format!("'{}'", status.as_str())), status.has_ended(), "{status:?}");
        }
    }
}
