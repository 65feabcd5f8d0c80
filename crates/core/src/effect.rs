//! What the core asks to be done, once the entries that allow it are durable.

use crate::saga::Phase;
use crate::{OpRef, Saga, Time};

/// Something to be done outside. The list is closed: nothing else ever leaves the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send an operation's request.
    Perform {
        /// Which operation.
        op: OpRef,
        /// Number of the attempt.
        attempt: u32,
    },
    /// Send an operation's query.
    Ask {
        /// Which operation is asked about.
        op: OpRef,
        /// Number of the query, from 0.
        n: u32,
    },
    /// Take the saga's claims, and say with [`crate::Input::Claimed`] whether they were taken.
    Claim,
    /// Come back with [`crate::Input::Tick`] at this time.
    Wake(Time),
}

/// What identifies a call: whoever carries out effects runs each at most once while it lives, however often the core
/// asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Which operation.
    pub op: OpRef,
    /// Whether it is the query.
    pub is_query: bool,
    /// Number of the attempt, or of the query.
    pub n: u32,
}

impl Effect {
    /// The call it asks for, if it asks for one.
    #[must_use]
    pub fn call(self) -> Option<CallId> {
        match self {
            Self::Perform { op, attempt } => Some(CallId { op, is_query: false, n: attempt }),
            Self::Ask { op, n } => Some(CallId { op, is_query: true, n }),
            Self::Claim | Self::Wake(_) => None,
        }
    }
}

/// Everything that a saga wants done at `now`: each call that may be on the wire, and the time of the next tick.
///
/// It is a function of the state alone, so it names calls that are under way already; their [`CallId`] tells.
#[must_use]
pub fn wanted(saga: &Saga, now: Time) -> Vec<Effect> {
    let mut effects = Vec::new();
    if saga.ended.is_some() || saga.stuck.is_some() {
        return effects;
    }
    if saga.accepting.as_ref().is_some_and(|accepting| accepting.due <= now) {
        effects.push(Effect::Claim);
    }
    for op in saga.ops() {
        let state = saga.op(op);
        match &state.phase {
            Phase::Calling => effects.push(Effect::Perform { op, attempt: state.sends }),
            Phase::Ask { due, .. } | Phase::InProgress { due, .. } | Phase::Verify { due } if *due <= now => {
                if saga.can_ask(op) {
                    effects.push(Effect::Ask { op, n: state.asked });
                }
            }
            Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Idle
            | Phase::Send { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => {}
        }
    }
    if let Some(at) = saga.wake_at(now) {
        effects.push(Effect::Wake(at));
    }
    effects
}

impl Saga {
    /// Whether the operation has a query that can be asked now.
    #[must_use]
    pub fn can_ask(&self, op: OpRef) -> bool {
        let known = self.op(op).serial.is_some();
        self.operation(op).and_then(|o| o.query.as_ref()).is_some_and(|query| known || !query.needs_serial)
    }

    /// When the saga next moves by itself: the earliest of its timers, deadline included. A query that is due and being
    /// asked is not a timer; `None` if only answers, or people, move it.
    #[must_use]
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        if self.ended.is_some() || self.stuck.is_some() {
            return None;
        }
        let accepting = self.accepting.as_ref().map(|accepting| accepting.due).filter(|due| *due > now);
        let deadline = self.deadline_at.filter(|_| self.deadline_counts());
        let timers = self.ops().filter_map(|op| {
            let state = self.op(op);
            match &state.phase {
                // A due query is on the wire; its answer moves the operation, or the end of the wait does.
                Phase::InProgress { due, until, .. } if *due <= now && self.can_ask(op) => {
                    Some(*until).filter(|until| until > &now)
                }
                Phase::InProgress { until, .. } if !self.can_ask(op) => Some(*until),
                Phase::Ask { due, .. } | Phase::Verify { due } if *due <= now && self.can_ask(op) => None,
                Phase::Ask { .. }
                | Phase::InProgress { .. }
                | Phase::Verify { .. }
                | Phase::Idle
                | Phase::Calling
                | Phase::Send { .. }
                | Phase::Parked { .. }
                | Phase::Dead { .. } => state.due(),
            }
        });
        timers.chain(accepting).chain(deadline).min()
    }
}
