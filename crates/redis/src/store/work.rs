//! Due work and take-over.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, NodeLease, Work};
use async_trait::async_trait;
use redis::Value;
use tokio::sync::Mutex;

use super::RedisStore;
use super::library::{CLAIM, CLAIM_DUE, DUE, TAKE_OVER};
use super::words::{Arguments, Words, unreadable};
use crate::client::Function;

/// Sagas that one call gives at most.
const CLAIM_MAX: usize = 100;

#[async_trait]
impl Work for RedisStore {
    async fn claim_due(&self, lease: &NodeLease, _now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.claim_many(&CLAIM_DUE, &self.claiming, lease, limit).await
    }

    async fn take_over(&self, lease: &NodeLease, _now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.claim_many(&TAKE_OVER, &self.taking_over, lease, limit).await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, _now: Time) -> Result<bool, Error> {
        self.link.health.takes_work()?;
        let mut arguments = Arguments::default();
        arguments.add(lease.node.as_str()).number(lease.epoch).add(id.as_str());
        let mut words = self.link.write_here(&CLAIM, &arguments).await?;
        Ok(words.text()? == "yes")
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        let mut range = redis::cmd("ZRANGE");
        range.arg(DUE).arg(0).arg(0).arg("WITHSCORES");
        let broken = || unreadable("the index of due sagas", "something else than a score");
        let score = match self.link.ask(range).await? {
            Value::Array(found) => match found.into_iter().nth(1) {
                None => return Ok(None),
                Some(Value::BulkString(score)) => String::from_utf8(score).map_err(|_| broken())?,
                Some(_) => return Err(broken()),
            },
            _ => return Err(broken()),
        };
        let due: f64 = score.parse().map_err(|_| broken())?;
        #[allow(clippy::cast_possible_truncation, reason = "whole milliseconds, which a score holds exactly")]
        Ok(Some(Time(due as i64)))
    }
}

impl RedisStore {
    /// Claims with a numbered request: the same number again gives what the first call gave, so that sagas whose names got lost with an
    /// answer are named again, and not this node's without its knowing.
    async fn claim_many(
        &self,
        function: &'static Function,
        request: &Mutex<u64>,
        lease: &NodeLease,
        limit: usize,
    ) -> Result<Vec<Due>, Error> {
        self.link.health.takes_work()?;
        let mut request = request.lock().await;
        let mut arguments = Arguments::default();
        arguments.add(lease.node.as_str()).number(lease.epoch).number(*request).number(limit.min(CLAIM_MAX));
        let mut words = self.link.write_here(function, &arguments).await?;
        *request += 1;
        read_due(&mut words)
    }
}

/// Reads (id, number) of each.
pub(super) fn read_due(words: &mut Words) -> Result<Vec<Due>, Error> {
    let mut due = Vec::with_capacity(words.left() / 2);
    while words.left() > 0 {
        due.push(Due { id: words.id()?, rowid: words.number()? });
    }
    Ok(due)
}
