//! What is due by the clock.

use super::Deciding;
use super::next::Next;
use crate::call::for_call;
use crate::saga::Phase;
use crate::{CallId, EntryKind, OpRef};

impl Deciding {
    /// Does what is due for one operation; true if that made an entry.
    pub(super) fn due(&mut self, op: OpRef) -> bool {
        let before = self.entries.len();
        let now = self.now.at;
        match self.saga.op(op).phase.clone() {
            Phase::Send { due, waited_ms, verifying } if due <= now => self.send(op, waited_ms, verifying),
            Phase::Parked { due, reason } if due <= now => match self.parked(op, reason, None) {
                dead @ Phase::Dead { .. } => self.push(EntryKind::Waited { op, next: dead }),
                Phase::Idle
                | Phase::Calling
                | Phase::Send { .. }
                | Phase::Ask { .. }
                | Phase::InProgress { .. }
                | Phase::Verify { .. }
                | Phase::Parked { .. } => self.send(op, 0, false),
            },
            Phase::InProgress { until, .. } if until <= now => {
                let next = self.unknown(op, 0);
                self.push(EntryKind::Waited { op, next });
            }
            Phase::Ask { due, .. } if due <= now && !self.saga.can_ask(op) => {
                let next = self.after_queries(op, 0);
                self.push(EntryKind::Waited { op, next });
            }
            Phase::Verify { due } if due <= now => self.verify(op),
            Phase::Idle
            | Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => {}
        }
        self.entries.len() > before
    }

    fn verify(&mut self, op: OpRef) {
        if self.verification_is_over(op) {
            let next = self.verification(op);
            self.push(EntryKind::Waited { op, next });
        } else if self.saga.can_ask(op) {
            // The query is an effect without an entry of its own; its answer is the entry.
        } else if self.may_resend(op) {
            self.send(op, 0, true);
        } else {
            let next = self.verification(op);
            self.push(EntryKind::Waited { op, next });
        }
    }

    /// Allows one more attempt, by an entry of its own (rule 1). What has become impossible meanwhile is not sent.
    fn send(&mut self, op: OpRef, waited_ms: u64, verifying: bool) {
        let state = self.saga.op(op);
        if state.open > 0 && !state.forced && !self.may_resend(op) {
            // The key's life ended while it waited.
            let next: Next = self.unknown(op, 0).into();
            return self.push_next(next, |next| EntryKind::Waited { op, next });
        }
        let attempt = state.sends + 1;
        match for_call(&self.saga, CallId { op, is_query: false, n: attempt }) {
            Ok(request) => {
                let digest = request.digest();
                self.push(EntryKind::Sending { op, attempt, digest, verifying, waited_ms });
            }
            Err(missing) => self.push(EntryKind::Unrenderable { op, path: missing.path }),
        }
    }
}
