//! One pass over the indexes: what is due is undone, what was settled long ago is removed.

use std::time::Duration;

use crate::client::Error;
use crate::log::{
    BusinessId, Compensate, Index, Listed, Log, POSTPONE, Page, REMOVE, Record, Refusal, Shard, TIMEOUT_MAX,
    Words, shards, threshold,
};

use super::{Failure, Parked, Report, Scanner, concerns_all, each};

/// After a first refusal, a rollback is tried again after this, then after twice as long, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(30);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

/// So many shards of a cluster are prepared to be asked at once: only memory is bounded by it.
const SHARDS_AT_ONCE: usize = 256;

/// What became of one record.
enum Handled {
    Compensated,
    SettledByOthers,
    Postponed,
    Parked(String),
    Removed,
    Kept,
}

/// Where a pass stands in an index: so many of its first were handled and are still there.
#[derive(Clone, Copy)]
struct Place {
    shard: Shard,
    skip: usize,
}

impl Scanner {
    /// Handles what is due, oldest first, then removes what is to be removed, up to `batch_max` of each.
    pub(super) async fn pass(&self, report: &mut Report) -> Result<(), Error> {
        self.go_through(Index::Due, Duration::ZERO, report).await?;
        self.go_through(Index::Settled, self.options.retention, report).await
    }

    async fn go_through(&self, index: Index, age: Duration, report: &mut Report) -> Result<(), Error> {
        let age_ms = u64::try_from(age.min(TIMEOUT_MAX).as_millis()).unwrap_or(u64::MAX);
        let mut places: Vec<_> = shards(self.log.client().is_cluster())
            .into_iter()
            .map(|shard| Place { shard, skip: 0 })
            .collect();
        let mut room = self.options.batch_max;
        while !places.is_empty() {
            let mut due: Vec<(Listed, usize)> = Vec::new();
            for (nth, page) in self.pages(&places, index, age_ms).await.into_iter().enumerate() {
                let page = page?;
                if let (Index::Due, Some(next_ms)) = (index, page.next_ms) {
                    let next = Duration::from_millis(next_ms.saturating_sub(page.now_ms).max(1));
                    report.next_due = Some(report.next_due.map_or(next, |earlier| earlier.min(next)));
                }
                due.extend(page.listed.into_iter().map(|listed| (listed, nth)));
            }
            due.sort_by(|(a, _), (b, _)| (a.at_ms, &a.id).cmp(&(b.at_ms, &b.id)));
            if due.len() > room {
                report.left = true;
                due.truncate(room);
            }
            room -= due.len();
            if !self.handle_all(index, &due, &mut places, report).await || room == 0 {
                return Ok(());
            }
            // Where nothing was due, nothing is; where something was, there may be more behind it.
            let mut nth = 0;
            places.retain(|_| {
                nth += 1;
                due.iter().any(|(_, place)| *place == nth - 1)
            });
        }
        Ok(())
    }

    /// The first that are due of each place.
    async fn pages(&self, places: &[Place], index: Index, age_ms: u64) -> Vec<Result<Page, Error>> {
        let mut pages = Vec::new();
        for some in places.chunks(SHARDS_AT_ONCE) {
            let task = |place: &Place| {
                let (log, place) = (self.log.clone(), *place);
                async move { log.page(place.shard, index, Some(age_ms), place.skip).await }
            };
            pages.extend(each(some.iter().map(task).collect()).await);
        }
        pages
    }

    /// Handles records in their order. Gives whether to go on: not if the server is the trouble.
    async fn handle_all(
        &self,
        index: Index,
        due: &[(Listed, usize)],
        places: &mut [Place],
        report: &mut Report,
    ) -> bool {
        for some in due.chunks(super::CALLS_MAX) {
            let task = |(listed, _): &(Listed, usize)| {
                let (log, id, retention) = (self.log.clone(), listed.id.clone(), self.options.retention);
                handle(log, id, index, retention, self.options.attempts_max)
            };
            let handled = each(some.iter().map(task).collect()).await;
            for ((listed, place), handled) in some.iter().zip(handled) {
                match handled {
                    Ok(Handled::Compensated) => report.compensated += 1,
                    Ok(Handled::SettledByOthers) => report.settled_by_others += 1,
                    Ok(Handled::Postponed) => report.postponed += 1,
                    Ok(Handled::Removed) => report.removed += 1,
                    Ok(Handled::Parked(reason)) => {
                        report.parked.push(Parked { id: listed.id.clone(), reason })
                    }
                    Ok(Handled::Kept) => places[*place].skip += 1,
                    Err(error) => {
                        // It stays where it is: the next ones must not wait for it.
                        places[*place].skip += 1;
                        let stop = concerns_all(&error);
                        report.failures.push(Failure { what: listed.id.to_string(), error });
                        if stop {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }
}

async fn handle(
    log: Log,
    id: BusinessId,
    index: Index,
    retention: Duration,
    attempts_max: u64,
) -> Result<Handled, Error> {
    match index {
        Index::Due => undo(&log, &id, attempts_max).await,
        Index::Settled | Index::Parked => remove(&log, &id, retention).await,
    }
}

async fn undo(log: &Log, id: &BusinessId, attempts_max: u64) -> Result<Handled, Error> {
    match log.compensate(id).await? {
        Compensate::Compensated { .. } => Ok(Handled::Compensated),
        Compensate::Committed { .. } => Ok(Handled::SettledByOthers),
        Compensate::Absent => {
            remove(log, id, Duration::ZERO).await?;
            Ok(Handled::SettledByOthers)
        }
        Compensate::Refused(refusal) => postpone(log, id, &refusal, attempts_max).await,
    }
}

async fn postpone(
    log: &Log,
    id: &BusinessId,
    refusal: &Refusal,
    attempts_max: u64,
) -> Result<Handled, Error> {
    let Some(record) = log.show(id).await? else { return Ok(Handled::SettledByOthers) };
    let reason = why_park(&record, refusal, attempts_max);
    let pause = PAUSE_FIRST.saturating_mul(1 << record.attempts.min(10)).min(PAUSE_MAX);
    let arguments = [
        record.attempts.to_string().into_bytes(),
        if reason.is_some() { b"park".to_vec() } else { b"retry".to_vec() },
        threshold(pause),
        reason.clone().unwrap_or_else(|| refusal.to_string()).into_bytes(),
    ];
    let answer = log.call(&POSTPONE, id, &[], &arguments).await?;
    let mut words = Words::new(&POSTPONE, answer)?;
    match words.text()?.as_str() {
        "postponed" => Ok(Handled::Postponed),
        "parked" => Ok(Handled::Parked(reason.unwrap_or_else(|| refusal.to_string()))),
        "settled" | "absent" => Ok(Handled::SettledByOthers),
        _ => Err(words.unreadable()),
    }
}

/// Why no machine should try again; `None` if one should.
fn why_park(record: &Record, refusal: &Refusal, attempts_max: u64) -> Option<String> {
    if !refusal.reason.may_pass() {
        return Some(refusal.to_string());
    }
    let tries = record.attempts + 1;
    (tries >= attempts_max).then(|| format!("{refusal} (refused {tries} times)"))
}

async fn remove(log: &Log, id: &BusinessId, retention: Duration) -> Result<Handled, Error> {
    let answer = log.call(&REMOVE, id, &[], &[threshold(retention)]).await?;
    let mut words = Words::new(&REMOVE, answer)?;
    match words.text()?.as_str() {
        "removed" => Ok(Handled::Removed),
        "kept" => Ok(Handled::Kept),
        _ => Err(words.unreadable()),
    }
}
