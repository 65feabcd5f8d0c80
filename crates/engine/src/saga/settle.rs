//! Making a decision durable, and living by it: commit, then effects, then stay or leave.

use amends_core::{Decision, Direction, Effect, Saga, Status, Time, status};
use amends_store::{Advance, Holder, StoredEntry};

use super::calls::Caller;
use super::driver::{Driver, Flow};
use crate::lease::{Lease, ms};
use crate::node::Node;
use crate::persist::Written;
use crate::row::{self, Owner};

/// A decision with what is to be committed beside it.
pub(super) struct Step {
    pub(super) decision: Decision,
    /// The mail that it answers, and the answer.
    pub(super) mail: Option<(u64, Vec<u8>)>,
    /// Take the saga's claims with it.
    pub(super) take_claims: bool,
    /// Write the list row, whether or not it changes.
    pub(super) with_row: bool,
    /// It was a tick that led to nothing.
    pub(super) idle_tick: bool,
}

impl Step {
    pub(super) fn of(decision: Decision) -> Self {
        Self { decision, mail: None, take_claims: false, with_row: false, idle_tick: false }
    }
}

/// What became of a step.
#[must_use]
pub(super) enum Carried {
    Flow(Flow),
    /// A claim was held: nothing was written, nothing has changed.
    Held(Box<Holder>),
}

impl Carried {
    /// Of a step that takes no claims.
    pub(super) fn flow(self) -> Flow {
        match self {
            Self::Flow(flow) => flow,
            Self::Held(_) => unreachable!("invariant: only a step that takes claims meets a holder"),
        }
    }
}

/// Whether a saga stays in memory.
#[derive(Clone, Copy)]
pub(super) enum Rest {
    /// It does.
    Stay,
    /// It does not: it is nobody's until it is due.
    Leave { due: Option<Time> },
}

impl Rest {
    /// Of a saga with no call under way and nobody waiting in its inbox.
    pub(super) fn of(node: &Node, after: &Saga, effects: &[Effect], now: Time) -> Self {
        if after.ended.is_some() {
            return Self::Leave { due: None };
        }
        let calls = effects.iter().any(is_now);
        let wake = wake(effects);
        if node.is_stopping() {
            return Self::Leave { due: if calls { Some(now) } else { wake } };
        }
        let soon = wake.is_some_and(|at| at.since_ms(now) <= ms(node.config.times.park_after));
        if calls || soon { Self::Stay } else { Self::Leave { due: wake } }
    }

    pub(super) fn of_new(node: &Node, decision: &Decision) -> Self {
        Self::of(node, &decision.after, &decision.effects, decision.after.updated_at)
    }

    pub(super) fn owner(self, node: &Node, lease: &Lease) -> Owner {
        match self {
            Self::Stay => Owner::Node(node.config.node.clone(), lease.epoch()),
            Self::Leave { due } => Owner::Nobody { due },
        }
    }
}

/// Whether it is something to do now, rather than later.
fn is_now(effect: &Effect) -> bool {
    match effect {
        Effect::Perform { .. } | Effect::Ask { .. } | Effect::Claim => true,
        Effect::Wake(_) => false,
    }
}

fn wake(effects: &[Effect]) -> Option<Time> {
    effects.iter().find_map(|effect| match effect {
        Effect::Wake(at) => Some(*at),
        Effect::Perform { .. } | Effect::Ask { .. } | Effect::Claim => None,
    })
}

impl Driver {
    /// Commits a step, then runs its effects, then stays or leaves. Nothing is done before it is durable.
    pub(super) async fn carry_out(&mut self, step: Step) -> Carried {
        let Step { decision, mail, take_claims, with_row, idle_tick } = step;
        let now = self.node.now();
        let busy = self.calls.any() || !self.mails.is_empty() || self.more_mail || !self.inbox.is_empty();
        let rest =
            if busy { Rest::Stay } else { Rest::of(&self.node, &decision.after, &decision.effects, now) };
        let status = self.notable_status(&decision);
        let row_wanted = match rest {
            Rest::Leave { .. } => true,
            Rest::Stay => with_row || status.is_some_and(|status| status != self.listed),
        };
        if row_wanted || mail.is_some() || !decision.entries.is_empty() {
            let after = &decision.after;
            let ended = after.ended.is_some() && self.saga.ended.is_none();
            let row = row_wanted
                .then(|| row::of(after, self.rowid, rest.owner(&self.node, &self.lease), self.ended_at, now));
            let nonce = self.node.random.next();
            let advance = || Advance {
                id: after.id.clone(),
                rowid: self.rowid,
                after: self.saga.seq,
                entries: decision.entries.iter().map(StoredEntry::encode).collect(),
                row: row.clone(),
                release_claims: ended,
                // One that ends at once would leave behind what nobody releases any more.
                take_claims: if take_claims && !ended { after.claims.to_vec() } else { Vec::new() },
                mail: mail.clone().into_iter().collect(),
                nonce,
            };
            match self.node.advance(advance).await {
                Written::Yes => {}
                Written::Held(holder) => return Carried::Held(holder),
                Written::Fenced => {
                    self.node.meter.fenced.add();
                    tracing::info!(saga = %self.saga.id, "another write came first; it is dropped from memory here");
                    return Carried::Flow(Flow::Lost);
                }
            }
            self.ended_at = self.ended_at.or(row.and_then(|row| row.ended_at));
            if ended {
                self.node.claims_released(&self.saga.id);
            }
        }
        self.count(&decision.after, row_wanted, status);
        let Decision { entries, after, effects } = decision;
        if !entries.is_empty() {
            self.saga = std::sync::Arc::new(after);
            self.cell.show(&self.saga);
        }
        if let Some(status) = status
            && status.needs_attention_or_ended()
        {
            self.node.waiters.tell(&self.saga);
        }
        Carried::Flow(self.live_by(&effects, rest, idle_tick))
    }

    /// A new saga is durable.
    pub(super) fn begun(&mut self) -> std::sync::Arc<Saga> {
        if let Some(how) = self.saga.ended {
            self.known.meter.ended(how);
        }
        self.saga.clone()
    }

    /// Runs the effects of what is durable now.
    pub(super) fn live_by(&mut self, effects: &[Effect], rest: Rest, idle_tick: bool) -> Flow {
        match rest {
            Rest::Leave { .. } => return Flow::Leave,
            Rest::Stay => {}
        }
        if self.node.is_stopping() {
            // No new work: what is under way may end, and then it leaves.
            self.timer.set(None, &self.node.clock);
            return Flow::Stay;
        }
        let caller = Caller { node: &self.node, lease: &self.lease, known: &self.known, saga: &self.saga };
        for call in effects.iter().filter_map(|effect| effect.call()) {
            if self.ending == Some(call) {
                tracing::error!(saga = %self.saga.id, ?call, "a call that has ended is wanted again; it goes on as after a crash");
                return Flow::Lost;
            }
            self.calls.start(&caller, call);
        }
        self.claims_wanted = effects.contains(&Effect::Claim);
        let now = self.node.now();
        let wake =
            wake(effects).map(|at| if idle_tick && at <= now { now.plus_ms(IDLE_TICK_MS) } else { at });
        self.timer.set(wake, &self.node.clock);
        Flow::Stay
    }

    /// The saga's status, where it may be one that others must know: computing it for each step of a saga that just runs on
    /// would cost more than it tells.
    fn notable_status(&self, decision: &Decision) -> Option<Status> {
        let after = &decision.after;
        let calm = !self.calls.any() && !decision.effects.iter().any(is_now);
        let turned = match after.direction {
            Direction::Forward => false,
            Direction::Undo => self.listed == Status::Running,
        };
        let moving = match self.listed {
            Status::Running | Status::Compensating => true,
            Status::Accepting
            | Status::Unknown
            | Status::Dead
            | Status::Completed
            | Status::Compensated
            | Status::Resolved => false,
        };
        (calm || turned || !moving || after.ended.is_some()).then(|| status::status(after))
    }

    fn count(&mut self, after: &Saga, row_written: bool, status: Option<Status>) {
        for _ in self.saga.contradictions.len()..after.contradictions.len() {
            self.known.meter.contradictions.add();
        }
        if !row_written {
            return;
        }
        let status = status.unwrap_or_else(|| status::status(after));
        if status != self.listed && status.needs_attention_or_ended() {
            self.known.meter.came_to(status);
        }
        self.listed = status;
    }
}

/// How soon a tick that led to nothing, although it was due, is tried again. It must not happen; if it does it must not burn.
const IDLE_TICK_MS: u64 = 1_000;

/// What waiters wait for.
pub(crate) trait Notable {
    /// It ended, or is unknown or dead: nothing more comes by itself soon.
    fn needs_attention_or_ended(self) -> bool;
}

impl Notable for Status {
    fn needs_attention_or_ended(self) -> bool {
        match self {
            Self::Unknown | Self::Dead | Self::Completed | Self::Compensated | Self::Resolved => true,
            Self::Accepting | Self::Running | Self::Compensating => false,
        }
    }
}
