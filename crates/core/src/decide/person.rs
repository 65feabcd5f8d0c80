//! What people do: the same inputs, the same entries; each entry is the audit record (rule 15).

use serde_json::Value;

use super::take_over::Pivot;
use super::uses::uses_fact;
use super::{Deciding, Problem, Refusal};
use crate::definition::{Idempotency, StepKind};
use crate::input::{Person, PersonAction};
use crate::saga::{Direction, Ended, Knowledge, Phase, Settled};
use crate::status::{Status, status};
use crate::{By, EntryKind, OpKind, OpRef, UndoReason};

impl Deciding {
    pub(super) fn person(&mut self, person: &Person) -> Result<(), Refusal> {
        match &person.action {
            PersonAction::Cancel => {
                if person.version.is_some() {
                    self.check_version(person)?;
                }
                self.cancel(&person.by)
            }
            PersonAction::Retry { step, operation, force, new_key } => {
                let step = self.checked_step(person, step)?;
                let op = self.pick(step, *operation)?;
                self.retry_again(op, *force, *new_key, &person.by)
            }
            PersonAction::Resolve { step, operation, done } => {
                let step = self.checked_step(person, step)?;
                let op = self.pick(step, *operation)?;
                self.resolve(op, done.as_ref(), &person.by)
            }
            PersonAction::Skip { step } => {
                let step = self.checked_step(person, step)?;
                self.skip(step, &person.by)
            }
            PersonAction::Close => {
                self.check(person)?;
                self.close(&person.by)
            }
        }
    }

    fn check(&self, person: &Person) -> Result<(), Refusal> {
        if person.by.reason.trim().is_empty() {
            return Err(Refusal::new(
                Problem::ReasonRequired,
                "say why: the reason becomes part of the audit record",
            ));
        }
        self.check_version(person)
    }

    fn check_version(&self, person: &Person) -> Result<(), Refusal> {
        match person.version {
            None => Err(Refusal::new(
                Problem::VersionRequired,
                "say which version of the saga you saw (If-Match), so that nobody acts on what has moved meanwhile",
            )),
            // A take-over with nothing in flight is no reason to look again: all that was seen still stands.
            Some(version) if version > self.saga.seq || version + self.saga.moved_nothing < self.saga.seq => {
                Err(Refusal::new(
                    Problem::StaleVersion,
                    format!(
                        "version {version} was seen, but the saga is at version {}; look again, then decide",
                        self.saga.seq
                    ),
                ))
            }
            Some(_) => Ok(()),
        }
    }

    fn checked_step(&self, person: &Person, name: &str) -> Result<usize, Refusal> {
        let step = self.saga.definition.step(name).ok_or_else(|| {
            Refusal::new(Problem::UnknownStep, format!("the definition has no step `{name}`"))
        })?;
        self.check(person)?;
        Ok(step)
    }

    /// The operation meant: the one named, else the one not settled, else the dead one.
    fn pick(&self, step: usize, named: Option<OpKind>) -> Result<OpRef, Refusal> {
        let name = &self.saga.definition.steps[step].name;
        if let Some(kind) = named {
            let op = OpRef { step, kind };
            return match self.saga.operation(op) {
                Some(_) => Ok(op),
                None => Err(Refusal::wrong_state(format!("step `{name}` has no {}", kind.as_str()))),
            };
        }
        let both = [OpRef::compensation(step), OpRef::action(step)];
        let mut present = both.into_iter().filter(|op| self.saga.operation(*op).is_some());
        let unsettled = present.clone().find(|op| {
            let state = self.saga.op(*op);
            state.enabled
                && state.settled.is_none()
                && !(op.kind == OpKind::Action && self.saga.steps[step].undone)
        });
        let dead = present.clone().find(|op| matches!(self.saga.op(*op).phase, Phase::Dead { .. }));
        unsettled.or(dead).or_else(|| present.next_back()).ok_or_else(|| {
            Refusal::wrong_state(format!("step `{name}` has no operation: there is nothing to act on"))
        })
    }

    fn cancel(&mut self, by: &By) -> Result<(), Refusal> {
        match self.saga.ended {
            // The same answer again.
            Some(Ended::Compensated) => return Ok(()),
            Some(Ended::Completed) if self.saga.definition.pivot().is_some() => {
                return Err(Refusal::new(
                    Problem::PastPivot,
                    "it has passed its point of no return, and completed",
                ));
            }
            Some(Ended::Completed | Ended::Resolved) => {
                return Err(Refusal::wrong_state("it has ended already"));
            }
            None => {}
        }
        if self.saga.direction == Direction::Undo || self.saga.undo_pending.is_some() {
            return Ok(());
        }
        let by = Some(by.clone());
        match self.pivot() {
            Pivot::Passed => Err(Refusal::new(
                Problem::PastPivot,
                "it has passed its point of no return: it can only go forward; retry, resolve or skip what stands in its way",
            )),
            Pivot::Possible => {
                self.push(EntryKind::UndoPending { reason: UndoReason::Cancel, by });
                Ok(())
            }
            Pivot::None | Pivot::NotSent => {
                self.push(EntryKind::Undoing { reason: UndoReason::Cancel, by });
                Ok(())
            }
        }
    }

    fn refuse_ended(&self) -> Result<(), Refusal> {
        match self.saga.ended {
            Some(_) => Err(Refusal::wrong_state("it has ended; nothing moves it any more")),
            None => Ok(()),
        }
    }

    fn retry_again(&mut self, op: OpRef, force: bool, new_key: bool, by: &By) -> Result<(), Refusal> {
        self.refuse_ended()?;
        let state = self.saga.op(op);
        let dead = matches!(state.phase, Phase::Dead { .. });
        let waits = match &state.phase {
            Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. }
            | Phase::Dead { .. } => true,
            Phase::Idle | Phase::Calling => false,
        };
        if !waits {
            let what = if state.is_calling() {
                "a call is under way; wait for its answer"
            } else {
                "it is not waiting, unknown or dead"
            };
            return Err(Refusal::wrong_state(format!("this cannot be retried: {what}")));
        }
        if self.saga.steps[op.step].undone {
            return Err(Refusal::wrong_state("nothing of this step is left to be done"));
        }
        let refused = match state.knowledge() {
            Knowledge::Rejected | Knowledge::Sealed => dead,
            Knowledge::Unsent | Knowledge::Possible | Knowledge::Done => false,
        };
        if new_key && !refused {
            return Err(Refusal::wrong_state(
                "a new key is only for what was rejected or sealed for good: with anything else it could happen twice",
            ));
        }
        if state.knowledge() == Knowledge::Sealed && !new_key {
            return Err(Refusal::wrong_state(
                "it will never be executed under its key; retry with a new key",
            ));
        }
        let now = self.now.at;
        let unsafe_resend =
            state.knowledge() == Knowledge::Possible && self.idempotency(op) == Idempotency::None;
        let next = if unsafe_resend && !force {
            if !self.saga.can_ask(op) {
                return Err(if self.operation(op).idempotency == Idempotency::None {
                    Refusal::wrong_state(
                        "it may have been executed, and a repeat could do it twice: find out and resolve it, or force it",
                    )
                } else {
                    Refusal::new(
                        Problem::KeyExpired,
                        "it may have been executed, and its key is too old for the participant to know: find out and resolve it, or force it",
                    )
                });
            }
            Phase::Ask { due: now, n: 0 }
        } else if !force && state.knowledge() == Knowledge::Possible && !self.may_resend(op) {
            Phase::Ask { due: now, n: 0 }
        } else {
            Phase::Send { due: now, waited_ms: 0, verifying: false }
        };
        self.push(EntryKind::Retry { op, force, new_key, next, by: by.clone() });
        Ok(())
    }

    fn resolve(&mut self, op: OpRef, done: Option<&Value>, by: &By) -> Result<(), Refusal> {
        self.refuse_ended()?;
        let state = self.saga.op(op);
        let dead = matches!(state.phase, Phase::Dead { .. });
        let allowed = match state.knowledge() {
            Knowledge::Possible => true,
            Knowledge::Done => done.is_some() && !self.fact_was_used(op),
            Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed => dead,
        };
        if !allowed {
            return Err(Refusal::wrong_state(
                "only what may have been executed, is dead, or is done with a fact that nothing has used can be resolved",
            ));
        }
        if done.is_none() && state.is_calling() {
            return Err(Refusal::wrong_state(
                "a call is under way and may yet be executed; wait for its answer",
            ));
        }
        let settled = match done {
            None => Settled::Sealed,
            Some(fact) => {
                let serial = self.serial(op, fact);
                let declared = &self.operation(op).serial;
                if serial.is_none() && !declared.is_empty() {
                    return Err(Refusal::new(
                        Problem::Malformed,
                        format!(
                            "the fact needs the participant's serial at {}, as the definition declares",
                            declared.join(" or ")
                        ),
                    ));
                }
                Settled::Done { fact: std::sync::Arc::new(fact.clone()), serial }
            }
        };
        self.push(EntryKind::Settled { op, settled, source: "person".into(), by: Some(by.clone()) });
        Ok(())
    }

    /// Whether a request that may have been sent carried this operation's fact or serial.
    fn fact_was_used(&self, op: OpRef) -> bool {
        if op.kind == OpKind::Compensation {
            return true;
        }
        self.saga.ops().any(|user| {
            let sent = self.saga.op(user).enabled;
            sent && user != op
                && self.saga.operation(user).is_some_and(|operation| uses_fact(operation, op.step))
        })
    }

    fn skip(&mut self, index: usize, by: &By) -> Result<(), Refusal> {
        self.refuse_ended()?;
        let step = &self.saga.definition.steps[index];
        if self.saga.steps[index].skipped {
            return Ok(());
        }
        if step.kind == StepKind::Pivot {
            return Err(Refusal::wrong_state("the pivot is what decides; it cannot be skipped"));
        }
        let state = &self.saga.steps[index].action;
        let not_executed = match state.knowledge() {
            Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed => !state.is_calling(),
            Knowledge::Possible | Knowledge::Done => false,
        };
        if !not_executed || self.saga.steps[index].done {
            return Err(Refusal::wrong_state(
                "only a step whose action was not executed, and is not under way, can be skipped; resolve it instead",
            ));
        }
        if self.saga.direction == Direction::Forward {
            let user = self.saga.ops().find(|user| {
                user.step != index
                    && self.saga.operation(*user).is_some_and(|operation| uses_fact(operation, index))
            });
            if let Some(user) = user {
                let name = &self.saga.definition.steps[user.step].name;
                return Err(Refusal::wrong_state(format!(
                    "step `{name}` needs its fact; resolve it as done with a fact instead"
                )));
            }
        }
        self.push(EntryKind::Skipped { step: index, by: by.clone() });
        Ok(())
    }

    fn close(&mut self, by: &By) -> Result<(), Refusal> {
        self.refuse_ended()?;
        match status(&self.saga) {
            Status::Unknown | Status::Dead => {}
            Status::Accepting | Status::Running | Status::Compensating => {
                return Err(Refusal::wrong_state(
                    "it still moves by itself; only what is unknown or dead can be closed",
                ));
            }
            Status::Completed | Status::Compensated | Status::Resolved => {
                return Err(Refusal::wrong_state("it has ended already"));
            }
        }
        if self.saga.is_calling() {
            return Err(Refusal::wrong_state("a call is under way; wait for its answer"));
        }
        let left = self.left();
        self.push(EntryKind::Ended { how: Ended::Resolved, by: Some(by.clone()), left });
        Ok(())
    }
}
