//! A node's line to the store. Every method is one call of the line: that is where faults are.

use std::future::Future;
use std::sync::Arc;

use amends_core::{SagaId, Time};
use amends_store::{
    Arrival, Backlog, Cursor, DeadGroup, Definitions, Due, Error, Health, Intake, Item, Journal, Kind,
    ListFilter, Lists, Mail, Mailbox, NodeLease, Nodes, Outcome, Page, Retention, Row, Stats, Stored,
    StoredDefinition, StoredEntry, Verdict, Work,
};
use async_trait::async_trait;
use tokio::time::sleep;

use super::{Call, Fault};
use crate::event::Event;
use crate::nodes::Life;
use crate::sim::Sim;

/// The store, as one life of a node reaches it. Leases and due times go by the store's own clock, as in any store that several
/// machines share; in an embedded one by the node's.
pub(crate) struct Port {
    sim: Arc<Sim>,
    life: Arc<Life>,
}

const fn read(name: &'static str) -> Call {
    Call { name, writes: false, is_routine: false }
}

const fn write(name: &'static str) -> Call {
    Call { name, writes: true, is_routine: false }
}

const fn routine(name: &'static str, writes: bool) -> Call {
    Call { name, writes, is_routine: true }
}

fn failed(kind: Kind) -> Error {
    Error::new(kind, "the store was made to fail before this call")
}

fn lost() -> Error {
    Error::new(Kind::Indeterminate, "the answer to this call was made to be lost")
}

impl Port {
    pub(crate) fn new(sim: Arc<Sim>, life: Arc<Life>) -> Self {
        Self { sim, life }
    }

    /// The time that the store goes by, in a call at which it is `now` for the node: an embedded store has no clock of its own.
    fn clock(&self, now: Time) -> Time {
        if self.sim.options.embedded { now } else { self.sim.now() }
    }

    fn claimed(&self, lease: &NodeLease, claimed: Vec<Due>) -> Vec<Due> {
        for due in &claimed {
            self.sim.record(&Event::Claimed { epoch: lease.epoch, saga: due.id.clone() });
        }
        claimed
    }

    async fn crash<T>(&self, how: &'static str) -> T {
        self.sim.state().tally.crashes += 1;
        self.life.crash(how);
        std::future::pending().await
    }

    /// One call, with what goes wrong with it.
    async fn call<T: Send>(
        &self,
        call: Call,
        perform: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.life.pass().await;
        let answer = match self.sim.fault(self.life.id, call) {
            None => perform.await,
            Some(Fault::FailsBefore(kind)) => Err(failed(kind)),
            Some(Fault::LosesAnswer | Fault::LandsLate(_)) => match perform.await {
                Ok(_) if call.writes => Err(lost()),
                Ok(_) => Err(failed(Kind::Unavailable)),
                Err(error) => Err(error),
            },
            Some(Fault::LosesBoth) if call.writes => Err(lost()),
            Some(Fault::LosesBoth) => Err(failed(Kind::Unavailable)),
            Some(Fault::CrashesBefore | Fault::CrashesDuring(_)) => self.crash("crashes before a call").await,
            Some(Fault::CrashesAfter) => {
                drop(perform.await);
                self.crash("crashes after a call").await
            }
            Some(Fault::StallsBefore(time)) => {
                self.life.stand_still(time);
                self.life.pass().await;
                perform.await
            }
            Some(Fault::StallsAfter(time)) => {
                let answer = perform.await;
                self.life.stand_still(time);
                answer
            }
            Some(Fault::SlowThere(time)) => {
                sleep(time).await;
                self.life.pass().await;
                perform.await
            }
            Some(Fault::SlowBack(time)) => {
                let answer = perform.await;
                sleep(time).await;
                answer
            }
        };
        self.life.pass().await;
        answer
    }

    /// A batch, once it has reached the store.
    async fn land(sim: &Sim, life: &Life, batch: Vec<Item>) -> Vec<Outcome> {
        let outcomes = sim.commit(batch.clone()).await;
        for (item, outcome) in batch.into_iter().zip(&outcomes) {
            match (item, outcome) {
                (Item::Submit(submission), Outcome::Submitted(outcome)) => sim.record(&Event::Began {
                    life: life.id,
                    submission: Box::new(submission),
                    outcome: outcome.clone(),
                }),
                (Item::Advance(advance), Outcome::Advanced(outcome)) => sim.record(&Event::Advanced {
                    life: life.id,
                    advance: Box::new(advance),
                    outcome: outcome.clone(),
                }),
                (Item::Submit(_) | Item::Advance(_), _) => {}
            }
        }
        outcomes
    }

    /// A batch that reaches the store later, whatever becomes of its sender.
    fn land_later(&self, batch: Vec<Item>, time: std::time::Duration) {
        let (sim, life, under_way) = (self.sim.clone(), self.life.clone(), self.sim.under_way());
        tokio::spawn(async move {
            sleep(time).await;
            drop(Self::land(&sim, &life, batch).await);
            drop(under_way);
        });
    }
}

#[async_trait]
impl Journal for Port {
    async fn commit(&self, batch: Vec<Item>) -> Vec<Outcome> {
        let count = batch.len();
        self.life.pass().await;
        self.sim.state().tally.commits += 1;
        // A commit takes its time: the next batch forms meanwhile.
        let takes = self.sim.state().dice.store.ms(0..=2);
        sleep(takes).await;
        self.life.pass().await;
        let all = |error: Error| vec![Outcome::Failed(error); count];
        let answers = match self.sim.fault(self.life.id, write("commit")) {
            None => Self::land(&self.sim, &self.life, batch).await,
            Some(Fault::FailsBefore(kind)) => all(failed(kind)),
            Some(Fault::LosesAnswer) => {
                drop(Self::land(&self.sim, &self.life, batch).await);
                all(lost())
            }
            Some(Fault::LosesBoth) => all(lost()),
            Some(Fault::LandsLate(time)) => {
                self.land_later(batch, time);
                all(lost())
            }
            Some(Fault::CrashesBefore) => self.crash("crashes before a commit").await,
            Some(Fault::CrashesDuring(time)) => {
                self.land_later(batch, time);
                self.crash("crashes during a commit").await
            }
            Some(Fault::CrashesAfter) => {
                drop(Self::land(&self.sim, &self.life, batch).await);
                self.crash("crashes after a commit").await
            }
            Some(Fault::StallsBefore(time)) => {
                self.life.stand_still(time);
                self.life.pass().await;
                Self::land(&self.sim, &self.life, batch).await
            }
            Some(Fault::StallsAfter(time)) => {
                let answers = Self::land(&self.sim, &self.life, batch).await;
                self.life.stand_still(time);
                answers
            }
            Some(Fault::SlowThere(time)) => {
                sleep(time).await;
                self.life.pass().await;
                Self::land(&self.sim, &self.life, batch).await
            }
            Some(Fault::SlowBack(time)) => {
                let answers = Self::land(&self.sim, &self.life, batch).await;
                sleep(time).await;
                answers
            }
        };
        self.life.pass().await;
        answers
    }

    async fn wrote(&self, id: &SagaId, seq: u64, nonce: u64) -> Result<Option<bool>, Error> {
        self.call(read("wrote"), self.sim.memory.wrote(id, seq, nonce)).await
    }

    async fn load(&self, id: &SagaId) -> Result<Option<Stored>, Error> {
        self.call(read("load"), self.sim.load(id)).await
    }

    async fn entries(&self, id: &SagaId, after: u64, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        self.call(read("entries"), self.sim.memory.entries(id, after, limit)).await
    }

    async fn park(&self, row: Row) -> Result<(), Error> {
        self.call(write("park"), self.sim.memory.park(row)).await
    }
}

#[async_trait]
impl Work for Port {
    async fn claim_due(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        let perform = async {
            let claimed = self.sim.memory.claim_due(lease, self.clock(now), limit).await?;
            Ok(self.claimed(lease, claimed))
        };
        self.call(write("claim_due"), perform).await
    }

    async fn take_over(&self, lease: &NodeLease, now: Time, limit: usize) -> Result<Vec<Due>, Error> {
        let perform = async {
            let claimed = self.sim.memory.take_over(lease, self.clock(now), limit).await?;
            Ok(self.claimed(lease, claimed))
        };
        self.call(routine("take_over", true), perform).await
    }

    async fn claim(&self, lease: &NodeLease, id: &SagaId, now: Time) -> Result<bool, Error> {
        let perform = async {
            let is_ours = self.sim.memory.claim(lease, id, self.clock(now)).await?;
            if is_ours {
                self.sim.record(&Event::Claimed { epoch: lease.epoch, saga: id.clone() });
            }
            Ok(is_ours)
        };
        self.call(write("claim"), perform).await
    }

    async fn next_due(&self) -> Result<Option<Time>, Error> {
        self.call(routine("next_due", false), self.sim.memory.next_due()).await
    }

    fn intake(&self) -> Option<&dyn Intake> {
        Some(self)
    }
}

#[async_trait]
impl Intake for Port {
    async fn take(&self, now: Time, hold_ms: u64, limit: usize) -> Result<Vec<Arrival>, Error> {
        self.call(routine("take", true), self.sim.memory.take(self.clock(now), hold_ms, limit)).await
    }

    async fn settle(&self, now: Time, verdicts: Vec<(u64, Verdict)>) -> Result<(), Error> {
        self.call(write("settle"), self.sim.memory.settle(self.clock(now), verdicts)).await
    }

    async fn retry(&self, now: Time, saga: &str) -> Result<(), Error> {
        self.call(write("retry"), self.sim.memory.retry(self.clock(now), saga)).await
    }

    async fn backlog(&self) -> Result<Backlog, Error> {
        self.call(routine("backlog", false), self.sim.memory.backlog()).await
    }

    async fn knock(&self) {
        self.sim.memory.knock().await;
    }
}

#[async_trait]
impl Nodes for Port {
    async fn join(&self, node: &str, ttl_ms: u64, now: Time) -> Result<NodeLease, Error> {
        let perform = async {
            let lease = self.sim.memory.join(node, ttl_ms, self.clock(now)).await?;
            let until = self.sim.now().plus_ms(ttl_ms);
            self.sim.record(&Event::Joined { life: self.life.id, epoch: lease.epoch, until });
            Ok(lease)
        };
        self.call(write("join"), perform).await
    }

    async fn renew(&self, lease: &NodeLease, ttl_ms: u64, now: Time) -> Result<Option<NodeLease>, Error> {
        let perform = async {
            let renewed = self.sim.memory.renew(lease, ttl_ms, self.clock(now)).await?;
            if let Some(lease) = &renewed {
                let until = self.sim.now().plus_ms(ttl_ms);
                self.sim.record(&Event::Renewed { epoch: lease.epoch, until });
            }
            Ok(renewed)
        };
        self.call(routine("renew", true), perform).await
    }

    async fn leave(&self, lease: &NodeLease) -> Result<(), Error> {
        let perform = async {
            self.sim.memory.leave(lease).await?;
            self.sim.record(&Event::Left { epoch: lease.epoch });
            Ok(())
        };
        self.call(write("leave"), perform).await
    }
}

#[async_trait]
impl Mailbox for Port {
    async fn post(&self, id: &SagaId, input_id: &str, body: &[u8], _now: Time) -> Result<Option<u64>, Error> {
        self.call(write("post"), self.sim.post(id, input_id, body)).await
    }

    async fn waiting(&self, id: &SagaId, limit: usize) -> Result<Vec<Mail>, Error> {
        self.call(read("waiting"), self.sim.memory.waiting(id, limit)).await
    }

    async fn mine(&self, lease: &NodeLease, limit: usize) -> Result<Vec<Due>, Error> {
        self.call(routine("mine", false), self.sim.memory.mine(lease, limit)).await
    }

    async fn answer(&self, mail: u64) -> Result<Option<Vec<u8>>, Error> {
        self.call(read("answer"), self.sim.answer(mail)).await
    }
}

#[async_trait]
impl Definitions for Port {
    async fn register(&self, definition: StoredDefinition) -> Result<Result<bool, StoredDefinition>, Error> {
        self.call(write("register"), self.sim.memory.register(definition)).await
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<StoredDefinition>, Error> {
        self.call(read("by_digest"), self.sim.memory.by_digest(digest)).await
    }

    async fn by_name(&self, name: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        self.call(read("by_name"), self.sim.memory.by_name(name, version)).await
    }

    async fn list(&self, after: Option<(String, u64)>, limit: usize) -> Result<Vec<StoredDefinition>, Error> {
        self.call(read("list"), self.sim.memory.list(after, limit)).await
    }
}

#[async_trait]
impl Lists for Port {
    async fn page(&self, filter: &ListFilter, cursor: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.call(read("page"), self.sim.memory.page(filter, cursor, limit)).await
    }

    async fn row(&self, id: &SagaId) -> Result<Option<Row>, Error> {
        self.call(read("row"), self.sim.memory.row(id)).await
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, Error> {
        self.call(read("dead_groups"), self.sim.memory.dead_groups(limit)).await
    }

    async fn stats(&self, _now: Time) -> Result<Stats, Error> {
        self.call(read("stats"), self.sim.memory.stats(self.sim.now())).await
    }
}

#[async_trait]
impl Retention for Port {
    async fn prune(&self, ended_before: Time, limit: usize) -> Result<usize, Error> {
        self.call(routine("prune", true), self.sim.prune(ended_before, limit)).await
    }
}

impl Health for Port {
    fn health(&self) -> Result<(), Error> {
        if self.sim.is_away() {
            return Err(failed(Kind::Unavailable));
        }
        Ok(())
    }
}
