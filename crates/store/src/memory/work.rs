//! Due work, take-over and node leases.

use amends_core::{SagaId, Time};
use async_trait::async_trait;

use super::{Lease, Memory, State};
use crate::intake::Intake;
use crate::ports::{Nodes, Work};
use crate::{Due, Error, NodeLease, Row};

#[async_trait]
impl Work for Memory {
    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.state().claim_where(lease, now, limit, |_, row| {
            row.owner.is_none().then_some(row.due_at).flatten().filter(|due| *due <= now)
        })
    }

    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        self.state().claim_where(lease, now, limit, |state, row| {
            let (node, epoch) = row.owner.as_ref()?;
            (!state.is_live(node, *epoch, now)).then_some(row.created_at)
        })
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error> {
        let claimed = self.state().claim_where(lease, now, 1, |state, row| {
            let free = match &row.owner {
                None => true,
                Some((node, epoch)) => *epoch == lease.epoch || !state.is_live(node, *epoch, now),
            };
            (row.id == *id && free).then_some(now)
        })?;
        Ok(!claimed.is_empty())
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        let state = self.state();
        Ok(state.sagas.values().filter(|s| s.row.owner.is_none()).filter_map(|s| s.row.due_at).min())
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }
}

impl State {
    /// Gives the node up to `limit` of the sagas that `since` has a time for, earliest first.
    fn claim_where(
        &mut self,
        lease: &NodeLease,
        now: Time,
        limit: usize,
        since: impl Fn(&Self, &Row) -> Option<Time>,
    ) -> Result<Vec<Due>, Error> {
        if !self.is_live(&lease.node, lease.epoch, now) {
            return Ok(Vec::new());
        }
        let mut found: Vec<(Time, u64)> = self
            .sagas
            .iter()
            .filter_map(|(rowid, saga)| since(self, &saga.row).map(|time| (time, *rowid)))
            .collect();
        found.sort_unstable();
        found.truncate(limit);
        let claimed = found.into_iter().filter_map(|(_, rowid)| {
            let saga = self.sagas.get_mut(&rowid)?;
            saga.row.owner = Some((lease.node.clone(), lease.epoch));
            Some(Due { id: saga.row.id.clone(), rowid })
        });
        Ok(claimed.collect())
    }
}

#[async_trait]
impl Nodes for Memory {
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error> {
        let mut state = self.state();
        state.epoch_last += 1;
        let (epoch, expires_at) = (state.epoch_last, now.plus_ms(ttl_ms));
        state.nodes.insert(node.to_owned(), Lease { epoch, expires_at });
        Ok(NodeLease { node: node.to_owned(), epoch, expires_at })
    }

    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error> {
        let mut state = self.state();
        if !state.is_live(&lease.node, lease.epoch, now) {
            return Ok(None);
        }
        let expires_at = now.plus_ms(ttl_ms);
        state.nodes.insert(lease.node.clone(), Lease { epoch: lease.epoch, expires_at });
        Ok(Some(NodeLease { expires_at, ..lease.clone() }))
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        let mut state = self.state();
        if state.nodes.get(&lease.node).is_some_and(|held| held.epoch == lease.epoch) {
            state.nodes.remove(&lease.node);
        }
        Ok(())
    }
}
