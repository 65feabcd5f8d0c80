//! After the last fault: wait until every saga has ended, and read them all.

use std::sync::Arc;
use std::time::Duration;

use amends_shop::has_ended;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Api;
use crate::commands::saga;
use crate::exit::{Exit, Failure};
use crate::output::Progress;

/// How long sagas may take to end once faults have stopped.
pub(super) const END_MAX: Duration = Duration::from_secs(30);
/// How often those that have not ended are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many are read at once.
const AT_ONCE: usize = 16;

/// The sagas in the order of `ids`, as the API shows them when all have ended, or when the time is over.
pub(super) async fn settle(api: &Api, ids: &[String], progress: &Progress) -> Result<Vec<Value>, Failure> {
    let began = Instant::now();
    let mut sagas = vec![Value::Null; ids.len()];
    loop {
        let open: Vec<usize> = (0..ids.len()).filter(|at| !has_ended(&sagas[*at])).collect();
        let is_last = began.elapsed() >= END_MAX;
        for (at, saga) in read(api, ids, open).await? {
            sagas[at] = saga;
        }
        let ended = sagas.iter().filter(|saga| has_ended(saga)).count();
        progress.show(&format!("faults have stopped: {ended} of {} sagas have ended", ids.len()));
        if ended == ids.len() || is_last {
            return Ok(sagas);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reads these sagas. One that cannot be read now (the server is busy) is left out: it is read again.
async fn read(api: &Api, ids: &[String], which: Vec<usize>) -> Result<Vec<(usize, Value)>, Failure> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut reads = JoinSet::new();
    for at in which {
        let (api, id, places) = (api.clone(), ids[at].clone(), places.clone());
        reads.spawn(async move {
            let _place = places.acquire_owned().await.expect("invariant: the semaphore is never closed");
            (at, saga::fetch(&api, &id).await)
        });
    }
    let mut found = Vec::new();
    while let Some(read) = reads.join_next().await {
        match read.map_err(|e| Failure::failed(format!("a reader of the demo broke: {e}"), "run it again"))? {
            (at, Ok(saga)) => found.push((at, saga)),
            (_, Err(failure)) if matches!(failure.exit, Exit::Failed | Exit::TimeOver) => {}
            (_, Err(failure)) => return Err(failure),
        }
    }
    Ok(found)
}
