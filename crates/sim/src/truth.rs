//! What is true at a moment of a run, as far as the events until then tell: what is durable, who holds what, what happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use amends_core::{Definition, Entry, EntryKind, Saga, SagaId, Time, apply, replay};
use amends_store::{Advance, Advanced, Row, StoredEntry, Submission, Submitted};

use crate::event::{Event, LifeId};
use crate::ledger::Ledger;

/// Everything checkers can know besides the events themselves.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// The time on the store's clock.
    pub(crate) now: Time,
    /// Definitions by digest.
    pub(crate) definitions: BTreeMap<String, Arc<Definition>>,
    /// Sagas as their durable entries make them.
    pub(crate) sagas: BTreeMap<SagaId, Recorded>,
    /// Who holds each claim.
    pub(crate) claims: BTreeMap<String, SagaId>,
    /// Leases by epoch.
    pub(crate) leases: BTreeMap<u64, Lease>,
    /// What participants carried out.
    pub(crate) ledger: Ledger,
}

/// A saga as the store has acknowledged it.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// As its entries make it.
    pub(crate) saga: Saga,
    /// Its entries.
    pub(crate) entries: Vec<Entry>,
    /// When each was committed, on the store's clock.
    pub(crate) times: Vec<Time>,
    /// The same, as they were stored.
    pub(crate) stored: Vec<StoredEntry>,
    /// Its list row, as last written.
    pub(crate) row: Row,
    /// The epochs that made it theirs, in order.
    pub(crate) claims: Vec<u64>,
    /// Retention has removed its journal.
    pub(crate) pruned: bool,
    /// Why its entries make no sense; the state is as of before.
    pub(crate) broken: Option<String>,
}

/// A node's lease, as the store gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// Whose.
    pub(crate) life: LifeId,
    /// When it began.
    pub(crate) since: Time,
    /// When it ends unless prolonged.
    pub(crate) until: Time,
}

impl Truth {
    /// What changes with an event.
    pub(crate) fn learn(&mut self, event: &Event) {
        match event {
            Event::Joined { life, epoch, until } => {
                self.leases.insert(*epoch, Lease { life: *life, since: self.now, until: *until });
            }
            Event::Renewed { epoch, until } => {
                if let Some(lease) = self.leases.get_mut(epoch) {
                    lease.until = *until;
                }
            }
            Event::Left { epoch } => {
                if let Some(lease) = self.leases.get_mut(epoch) {
                    // A node that leaves late ends nothing any more.
                    lease.until = lease.until.min(self.now);
                }
            }
            Event::Claimed { epoch, saga } => {
                if let Some(recorded) = self.sagas.get_mut(saga)
                    && recorded.claims.last() != Some(epoch)
                {
                    recorded.claims.push(*epoch);
                }
            }
            Event::Began { submission, outcome: Submitted::Created(rowid), .. } => {
                self.begin(submission, *rowid)
            }
            Event::Advanced { advance, outcome: Advanced::Committed, .. } => self.advance(advance),
            Event::Pruned { saga, .. } => {
                if let Some(recorded) = self.sagas.get_mut(saga) {
                    recorded.pruned = true;
                }
            }
            Event::Happened(effect) => self.ledger.add(effect.clone()),
            Event::Began { outcome: Submitted::Same | Submitted::Different | Submitted::Held(_), .. }
            | Event::Advanced { outcome: Advanced::Conflict | Advanced::Held(_), .. }
            | Event::Arrived { .. }
            | Event::Sent { .. }
            | Event::Submitted { .. }
            | Event::Seen(_)
            | Event::Read { .. }
            | Event::SeenRow { .. }
            | Event::Acted { .. }
            | Event::Reported { .. }
            | Event::Died { .. }
            | Event::Panicked(_)
            | Event::Stored { .. }
            | Event::Rested
            | Event::PruningOver { .. }
            | Event::ClaimStuck { .. }
            | Event::CannotClose { .. }
            | Event::Over => {}
        }
    }

    fn begin(&mut self, submission: &Submission, rowid: u64) {
        let Some(definition) = self.definitions.get(&submission.row.digest) else { return };
        let Ok(entries) = submission.entries.iter().map(StoredEntry::decode).collect::<Result<Vec<_>, _>>()
        else {
            return;
        };
        let Ok(saga) = replay(definition.clone(), &entries) else { return };
        for claim in &submission.claims {
            self.claims.insert(claim.clone(), saga.id.clone());
        }
        let recorded = Recorded {
            saga,
            times: vec![self.now; entries.len()],
            claims: submission.row.owner.iter().map(|(_, epoch)| *epoch).collect(),
            entries,
            stored: submission.entries.clone(),
            row: Row { rowid, ..submission.row.clone() },
            pruned: false,
            broken: None,
        };
        self.sagas.insert(submission.row.id.clone(), recorded);
    }

    fn advance(&mut self, advance: &Advance) {
        let Some(recorded) = self.sagas.get_mut(&advance.id) else { return };
        recorded.append(&advance.entries, self.now);
        if let Some(row) = &advance.row {
            recorded.row = row.clone();
            // Who writes before the next owner does owns it again.
            if let Some((_, epoch)) = &row.owner
                && recorded.claims.last() != Some(epoch)
            {
                recorded.claims.push(*epoch);
            }
        }
        if advance.release_claims {
            self.claims.retain(|_, holder| *holder != advance.id);
        }
        for claim in &advance.take_claims {
            self.claims.insert(claim.clone(), advance.id.clone());
        }
    }

    /// Whether a lease was over at a time: the same node's next one ends it.
    pub(crate) fn had_lapsed(&self, epoch: u64, at: Time) -> bool {
        let Some(lease) = self.leases.get(&epoch) else { return true };
        let mut later = self.leases.range(epoch + 1..).map(|(_, other)| other);
        lease.until <= at || later.any(|other| other.life.node == lease.life.node && other.since <= at)
    }

    /// Whose lease an epoch is.
    pub(crate) fn life_of(&self, epoch: u64) -> Option<LifeId> {
        self.leases.get(&epoch).map(|lease| lease.life)
    }
}

impl Recorded {
    fn append(&mut self, entries: &[StoredEntry], now: Time) {
        for stored in entries {
            let applied = stored.decode().and_then(|entry| {
                apply(&mut self.saga, &entry).map_err(|unreadable| unreadable.to_string())?;
                self.entries.push(entry);
                self.times.push(now);
                Ok(())
            });
            match applied {
                Ok(()) => self.stored.push(stored.clone()),
                Err(why) => self.broken = Some(why),
            }
        }
    }

    /// The entries by which people acted and gave `mark` as their reason.
    pub(crate) fn acts<'a>(&'a self, mark: &'a str) -> impl Iterator<Item = &'a EntryKind> {
        let kinds = self.entries.iter().map(|entry| &entry.kind);
        kinds.filter(move |kind| kind.by().is_some_and(|by| by.reason == mark))
    }
}
