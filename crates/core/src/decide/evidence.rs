//! Evidence from elsewhere: callbacks, statements, late answers (rule 12).

use serde_json::Value;

use super::Deciding;
use super::answered::Fence;
use crate::json;
use crate::saga::{Knowledge, Phase, Settled};
use crate::{EntryKind, Evidence, OpKind, OpRef};

/// The source of evidence that a query gave.
pub(super) const QUERY: &str = "query";

/// How many different contradictions a saga records; the first tell the story.
const CONTRADICTIONS_MAX: usize = 100;

impl Deciding {
    /// Evidence settles an operation once; what disagrees is recorded and moves nothing.
    pub(super) fn evidence(&mut self, op: OpRef, generation: u32, evidence: &Evidence, source: &str) {
        let state = self.saga.op(op);
        if generation != state.generation {
            // A former key was rejected or sealed before a person asked for a new one.
            if matches!(evidence, Evidence::Done { .. }) {
                self.contradict(op, &format!("executed under its key number {generation}"), source);
            }
            return;
        }
        match &state.settled {
            Some(settled) => self.compare(op, settled.clone(), evidence, source),
            None if self.is_over(op) || state.sends == 0 => self.too_late(op, evidence, source),
            None => self.settle(op, evidence, source),
        }
    }

    fn compare(&mut self, op: OpRef, settled: Settled, evidence: &Evidence, source: &str) {
        match (&settled, evidence) {
            (Settled::Done { serial, .. }, Evidence::Done { fact }) => {
                let other = self.serial(op, fact);
                if let (Some(known), Some(other)) = (serial, other)
                    && !json::same(known, &other)
                {
                    self.contradict(op, &format!("executed with serial {other}"), source);
                }
            }
            (Settled::Done { .. }, Evidence::Rejected { explicit, .. }) => {
                // A refusal that would have settled nothing had it come first disagrees with nothing: under `effect` a repeat
                // may be answered with anything. A query speaks for the operation.
                if source == QUERY || self.refusal_settles(op, *explicit) {
                    self.contradict(op, "rejected", source);
                }
            }
            (Settled::Done { .. }, Evidence::Sealed) => self.contradict(op, "never executed", source),
            (Settled::Rejected { .. } | Settled::Sealed, Evidence::Done { .. }) => {
                self.contradict(op, "executed", source)
            }
            (Settled::Rejected { .. } | Settled::Sealed, Evidence::Rejected { .. } | Evidence::Sealed) => {}
        }
    }

    /// Evidence of an operation that was decided without it, or of one that was never sent.
    fn too_late(&mut self, op: OpRef, evidence: &Evidence, source: &str) {
        let step = &self.saga.steps[op.step];
        let compensated_by_fence =
            op.kind == OpKind::Action && step.compensation.knowledge() == Knowledge::Done;
        let does_not_matter = self.saga.definition.steps[op.step].effect_none;
        let disagrees = match evidence {
            Evidence::Done { fact } => {
                // A fence's answer that there was nothing to undo agrees with an action that did not happen.
                let nothing_to_undo = op.kind == OpKind::Compensation
                    && fact.get("undone") == Some(&Value::Bool(false))
                    && matches!(
                        step.action.knowledge(),
                        Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed
                    );
                !compensated_by_fence && !does_not_matter && !nothing_to_undo
            }
            Evidence::Rejected { .. } | Evidence::Sealed => false,
        };
        if disagrees {
            self.contradict(op, "executed", source);
        }
    }

    fn settle(&mut self, op: OpRef, evidence: &Evidence, source: &str) {
        let settled = match evidence {
            Evidence::Done { fact } => {
                let serial = self.serial(op, fact);
                if serial.is_none() && !self.operation(op).serial.is_empty() {
                    return self.hint(op, "executed, without the serial that the definition declares", None);
                }
                match self.fence(op, fact) {
                    Fence::Plain => Settled::Done { fact: std::sync::Arc::new(fact.clone()), serial },
                    Fence::Sealed => {
                        let settled = Settled::Done { fact: std::sync::Arc::new(fact.clone()), serial };
                        self.push(EntryKind::Settled { op, settled, source: source.into(), by: None });
                        return self.seal_action(op);
                    }
                    Fence::Contradiction => {
                        return self.contradict(OpRef::action(op.step), "never ran, says its fence", source);
                    }
                    Fence::Silent => {
                        return self.hint(op, "done, without saying what became of the action", serial);
                    }
                }
            }
            Evidence::Rejected { reason, explicit } => {
                if !self.refusal_settles(op, *explicit) {
                    return self.hint(op, &format!("rejected: {reason}"), None);
                }
                Settled::Rejected { reason: reason.clone() }
            }
            Evidence::Sealed => Settled::Sealed,
        };
        self.push(EntryKind::Settled { op, settled, source: source.into(), by: None });
    }

    /// Whether a refusal from elsewhere speaks for the operation. It names no attempt: after a void it may speak of one that was
    /// proved not to have happened.
    fn refusal_settles(&self, op: OpRef, explicit: bool) -> bool {
        !self.saga.op(op).voided && self.rejection_settles(op, explicit)
    }

    /// Evidence that does not settle is a reason to query at once.
    fn hint(&mut self, op: OpRef, said: &str, serial: Option<Value>) {
        let can_ask = self.saga.can_ask(op);
        let state = self.saga.op(op);
        let next = match &state.phase {
            Phase::Calling | Phase::Ask { .. } => return,
            Phase::Send { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Dead { .. }
            | Phase::Idle
                if can_ask && state.knowledge() == Knowledge::Possible =>
            {
                Phase::Ask { due: self.now.at, n: 0 }
            }
            Phase::Send { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. }
            | Phase::Idle => return,
        };
        self.push(EntryKind::Hinted { op, said: said.into(), serial, next });
    }

    /// Records a disagreement, each once.
    pub(super) fn contradict(&mut self, op: OpRef, evidence: &str, source: &str) {
        let known = &self.saga.contradictions;
        if known.len() >= CONTRADICTIONS_MAX || known.iter().any(|(of, said)| *of == op && said == evidence) {
            return;
        }
        let known = match self.saga.op(op).knowledge() {
            Knowledge::Unsent => "not executed",
            Knowledge::Possible => "undone without knowing whether it was executed",
            Knowledge::Done => "executed",
            Knowledge::Rejected => "rejected",
            Knowledge::Sealed => "never to be executed",
        };
        self.push(EntryKind::Contradiction {
            op,
            evidence: evidence.into(),
            known: known.into(),
            source: source.into(),
        });
    }

    /// The declared serial in a fact.
    pub(super) fn serial(&self, op: OpRef, fact: &Value) -> Option<Value> {
        self.operation(op)
            .serial
            .iter()
            .find_map(|pointer| fact.pointer(pointer))
            .filter(|value| !value.is_null())
            .cloned()
    }
}
