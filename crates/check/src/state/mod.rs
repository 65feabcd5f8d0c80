//! The state of an exploration, whole and packed.

mod normal;
mod pack;
mod shelf;

pub(crate) use normal::{former_nodes, normalise};
pub(crate) use pack::{Fingerprint, Packed, Packer};

use amends_core::{OpKind, OpRef, Phase, Saga, Time};

use crate::world::OpWorld;

/// A saga, and what became of its operations at their participants.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) saga: Saga,
    pub(crate) world: Vec<[OpWorld; 2]>,
}

impl State {
    pub(crate) fn world(&self, op: OpRef) -> &OpWorld {
        &self.world[op.step][op.kind as usize]
    }

    pub(crate) fn world_mut(&mut self, op: OpRef) -> &mut OpWorld {
        &mut self.world[op.step][op.kind as usize]
    }

    /// When an operation next does something by itself. Without a query, or without the serial it needs, what is in progress is
    /// only waited for.
    pub(crate) fn due(&self, op: OpRef) -> Option<Time> {
        let known = self.saga.op(op);
        match known.phase {
            Phase::InProgress { until, .. } if !self.saga.can_ask(op) => Some(until),
            Phase::InProgress { .. }
            | Phase::Idle
            | Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => known.due(),
        }
    }

    pub(crate) fn op_mut(&mut self, op: OpRef) -> &mut amends_core::OpState {
        let step = &mut self.saga.steps[op.step];
        match op.kind {
            OpKind::Action => &mut step.action,
            OpKind::Compensation => &mut step.compensation,
        }
    }
}
