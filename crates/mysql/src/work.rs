//! Due work and take-over. What is looked up is in one index, in which it stands together: it costs what is due, not what exists.

use amends_core::{SagaId, Time};
use amends_store::{Due, Error, Intake, NodeLease, Work};
use async_trait::async_trait;

use crate::MySqlStore;
use crate::error::Call;
use crate::rows::{due, limit, now_ms, number, time};
use crate::session::Limits;
use crate::sql::{Script, Texts, Value, fill};

/// Sagas that one call claims at most: their rows stay locked while it does.
const CLAIM_MAX: usize = 1_000;

const BEGIN: &str = "START TRANSACTION";

const LIVE: &str = concat!("SELECT 1 FROM amends_node WHERE epoch = ? AND expires_at > ", now_ms!());

// What another node is just claiming, or committing, is passed over. There is no UPDATE that gives rows, so that they are chosen first.
const DUE: &str = concat!(
    "SELECT rowid, id FROM amends_saga FORCE INDEX (saga_work) WHERE owner_epoch IS NULL AND due_at <= ",
    now_ms!(),
    " ORDER BY due_at, rowid LIMIT ? FOR UPDATE SKIP LOCKED"
);

// The epochs that own something are found by one seek each: sagas in flight belong to few.
const LAPSED: &str = concat!(
    "WITH RECURSIVE owning (epoch) AS (
        (SELECT owner_epoch FROM amends_saga FORCE INDEX (saga_work) WHERE owner_epoch IS NOT NULL ORDER BY owner_epoch LIMIT 1)
        UNION ALL
        SELECT (SELECT s.owner_epoch FROM amends_saga s FORCE INDEX (saga_work) WHERE s.owner_epoch > owning.epoch
            ORDER BY s.owner_epoch LIMIT 1)
        FROM owning WHERE owning.epoch IS NOT NULL
    )
    SELECT epoch FROM owning WHERE epoch IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM amends_node n WHERE n.epoch = owning.epoch AND n.expires_at > ",
    now_ms!(),
    ")"
);

const OF_LAPSED: &str = "SELECT rowid, id FROM amends_saga FORCE INDEX (saga_work) WHERE owner_epoch IN (?)
    ORDER BY owner_epoch, due_at, rowid LIMIT ? FOR UPDATE SKIP LOCKED";

const TAKE: &str = "UPDATE amends_saga FORCE INDEX (PRIMARY) SET owner_node = ?, owner_epoch = ?, prune_at = NULL WHERE rowid IN (?)";

const CLAIM: &str = concat!(
    "UPDATE amends_saga s SET owner_node = ?, owner_epoch = ?, prune_at = NULL WHERE s.id = ?
        AND EXISTS (SELECT 1 FROM amends_node n WHERE n.epoch = ? AND n.expires_at > ",
    now_ms!(),
    ") AND (s.owner_epoch IS NULL OR s.owner_epoch = ? OR NOT EXISTS (
            SELECT 1 FROM amends_node o WHERE o.epoch = s.owner_epoch AND o.expires_at > ",
    now_ms!(),
    "))"
);

const NEXT_DUE: &str = "SELECT due_at FROM amends_saga FORCE INDEX (saga_work)
    WHERE owner_epoch IS NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT 1";

#[async_trait]
impl Work for MySqlStore {
    async fn claim_due(&self, lease: &NodeLease, _: Time, max: usize) -> Result<Vec<Due>, Error> {
        self.pool.health.takes_work()?;
        self.take(lease, &fill(DUE, &[limit(max.min(CLAIM_MAX)).into()])).await
    }

    async fn take_over(&self, lease: &NodeLease, _: Time, max: usize) -> Result<Vec<Due>, Error> {
        self.pool.health.takes_work()?;
        let lapsed = self.pool.query(Call::Reads, LAPSED).await?;
        let lapsed: Vec<u64> = lapsed.iter().map(|row| number(row, 0)).collect::<Result<_, _>>()?;
        if lapsed.is_empty() {
            return Ok(Vec::new());
        }
        // An epoch never comes back to life.
        let max = limit(max.min(CLAIM_MAX));
        self.take(lease, &fill(OF_LAPSED, &[Value::list(lapsed), max.into()])).await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, _: Time) -> Result<bool, Error> {
        self.pool.health.takes_work()?;
        let epoch = lease.epoch;
        let values = [(&lease.node).into(), epoch.into(), id.as_str().into(), epoch.into(), epoch.into()];
        Ok(self.pool.one(Call::Writes, &fill(CLAIM, &values)).await?.affected > 0)
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        let row = self.pool.query_opt(Call::Reads, NEXT_DUE).await?;
        row.map(|row| time(&row, 0)).transpose()
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }
}

impl MySqlStore {
    /// Makes the sagas that `chosen` finds and locks this node's, if its lease is not over.
    async fn take(&self, lease: &NodeLease, chosen: &str) -> Result<Vec<Due>, Error> {
        let look = Script::of(&[BEGIN, &fill(LIVE, &[lease.epoch.into()]), chosen]);
        let plan = |answers: Vec<crate::session::Answer>, limits: Limits| {
            let rows = |nth: usize| answers.get(nth).map_or(&[][..], |answer| &answer.rows);
            let is_live = !rows(1).is_empty();
            let found: Vec<Due> = rows(2).iter().filter(|_| is_live).map(due).collect::<Result<_, _>>()?;
            let mut texts = Texts::new(limits.packet_max);
            if !found.is_empty() {
                let rowids = Value::list(found.iter().map(|due| due.rowid));
                texts.push(&fill(TAKE, &[(&lease.node).into(), lease.epoch.into(), rowids]))?;
            }
            Ok((found, texts))
        };
        self.pool.transact(&look, plan).await.map(|(found, _)| found)
    }
}
