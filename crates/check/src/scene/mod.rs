//! What stands still during an exploration: the definition, what participants keep, the facts they answer.

mod facts;
mod promise;
mod twins;

use std::rc::Rc;
use std::sync::Arc;

use amends_core::definition::{Definition, Operation, check_input};
use amends_core::{Decision, Jitter, Now, OpKind, OpRef, SagaId, Submission, Time};
use serde_json::Value;

use promise::LeantOn;
pub(crate) use promise::Promise;

use crate::guarantee::Guarantee;
use crate::machine::Machine;

/// The time at which everything is decided. Each operation's times are kept relative to it: see [`crate::turn`].
pub(crate) const NOW: Time = Time(1_000_000_000_000);

/// The clock and the drawn number of every decision. Back-offs are never shortened: how long they are makes no difference
/// to what can happen, only to when.
pub(crate) const AT_NOW: Now = Now { at: NOW, jitter: Jitter::NONE };

/// What stands still during an exploration.
pub(crate) struct Scene {
    pub(crate) definition: Arc<Definition>,
    /// How many faults a story may have.
    pub(crate) faults: u8,
    /// Every operation, actions first within a step.
    pub(crate) ops: Vec<OpRef>,
    /// Steps that are the same but for their names, in groups of two and more.
    pub(crate) twins: Vec<Vec<usize>>,
    pub(crate) leant_on: Rc<LeantOn>,
    plans: Vec<[Option<Plan>; 2]>,
}

/// What stands still about one operation.
pub(crate) struct Plan {
    pub(crate) promise: Promise,
    /// What it answers when it is done.
    pub(crate) fact: Arc<Value>,
    /// The serial in it.
    pub(crate) serial: Option<Value>,
}

impl Scene {
    /// `dropped`: what a participant, by its index, does not keep.
    pub(crate) fn new(
        definition: &Arc<Definition>,
        faults: u8,
        dropped: Option<(usize, Guarantee)>,
        with_twins: bool,
    ) -> Self {
        let leant_on = Rc::new(LeantOn::new(definition.participants.len()));
        let plan = |step: usize, kind: OpKind, operation: &Operation| {
            let participant =
                definition.participants.keys().position(|name| *name == operation.to).unwrap_or_default();
            let dropped = dropped.filter(|(of, _)| *of == participant).map(|(_, guarantee)| guarantee);
            let of = (kind == OpKind::Action).then_some(step);
            Plan {
                promise: Promise::new(operation, participant, dropped, &leant_on),
                fact: Arc::new(facts::fact(definition, of, operation)),
                serial: (!operation.serial.is_empty()).then(facts::leaf),
            }
        };
        let plans: Vec<[Option<Plan>; 2]> = definition
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                [
                    step.action.as_ref().map(|action| plan(index, OpKind::Action, action)),
                    step.compensation.as_ref().map(|undo| plan(index, OpKind::Compensation, undo)),
                ]
            })
            .collect();
        let ops = (0..plans.len())
            .flat_map(|step| [OpRef::action(step), OpRef::compensation(step)])
            .filter(|op| plans[op.step][op.kind as usize].is_some())
            .collect();
        Self {
            definition: definition.clone(),
            faults,
            ops,
            twins: if with_twins { twins::find(definition) } else { Vec::new() },
            leant_on,
            plans,
        }
    }

    /// How sagas begin: at once, and, where there are claims, also in a caller's transaction.
    pub(crate) fn begin(&self, machine: &dyn Machine) -> Vec<Decision> {
        let input = facts::input(&self.definition);
        let id = SagaId::new("saga:1").expect("invariant: a short text without control characters is an id");
        // An input made of all paths fits; a claim that is too long by its plain text alone is no claim to explore.
        let claims = check_input(&self.definition, &id, &input).unwrap_or_default();
        let ways: &[bool] = if self.definition.claims.is_empty() { &[false] } else { &[false, true] };
        ways.iter()
            .map(|accepting| {
                let submission = Submission {
                    id: id.clone(),
                    input: input.clone(),
                    accepting: *accepting,
                    trace: None,
                    epoch: 1,
                    who: String::new(),
                };
                machine.submit(self.definition.clone(), submission, claims.clone(), AT_NOW)
            })
            .collect()
    }

    /// What stands still about an operation that the definition has.
    pub(crate) fn plan(&self, op: OpRef) -> &Plan {
        self.plans[op.step][op.kind as usize]
            .as_ref()
            .expect("invariant: only operations of the definition are explored")
    }

    /// The definition of an operation that it has.
    pub(crate) fn operation(&self, op: OpRef) -> &Operation {
        let step = &self.definition.steps[op.step];
        let operation = match op.kind {
            OpKind::Action => &step.action,
            OpKind::Compensation => &step.compensation,
        };
        operation.as_ref().expect("invariant: only operations of the definition are explored")
    }

    pub(crate) fn promise(&self, op: OpRef) -> &Promise {
        &self.plan(op).promise
    }

    /// Whether two operations are the same, or belong to steps that are the same but for their names.
    pub(crate) fn are_twins(&self, a: OpRef, b: OpRef) -> bool {
        let together = |group: &Vec<usize>| group.contains(&a.step) && group.contains(&b.step);
        a.kind == b.kind && (a.step == b.step || self.twins.iter().any(together))
    }

    /// The name of a step.
    pub(crate) fn step_name(&self, step: usize) -> &str {
        &self.definition.steps[step].name
    }
}
