//! What must never happen, one rule each.

use amends_core::{
    Direction, Effect, Entry, EntryKind, Evidence, Input, Knowledge, OpKind, OpRef, Phase, Settled,
};

use crate::machine::Machine;
use crate::scene::{AT_NOW, NOW, Scene};
use crate::state::State;
use crate::turn::Turn;

/// What must never happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Carried out twice, or done and still able to arrive once more.
    Twice(OpRef),
    /// Taken for done, and never carried out.
    Lost(OpRef),
    /// Taken for undone, with its effect left, or still to come.
    LeftOver(usize),
    /// Undone while nobody knew whether it was done.
    UndoneUnknown(usize),
    /// Undone although it was never carried out.
    UndoneNothing(usize),
    /// Undone before a step that builds on it.
    OutOfOrder { step: usize, dependant: usize },
    /// Undone after the point of no return, or while it may have been passed.
    PastPivot(usize),
    /// More attempts than the retry policy allows.
    Attempts(OpRef),
    /// More time than the retry budget holds.
    Budget(OpRef),
    /// Something moves, or is sent, after the end.
    NotAbsorbed,
    /// Something is sent that no entry allows.
    Unwritten(OpRef),
    /// Nothing will move it, and nobody is told.
    Asleep(Option<OpRef>),
}

impl Violation {
    /// Whether it is the same violation, of the same operation or of a twin of it.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What a turn did that must never happen, if it did.
pub(crate) fn judge(scene: &Scene, before: &State, turn: &Turn) -> Option<Violation> {
    let judge = Judge { scene, before, turn, after: &turn.after };
    judge
        .sends()
        .or_else(|| scene.ops.iter().find_map(|op| judge.operation(*op)))
        .or_else(|| (0..turn.after.saga.steps.len()).find_map(|step| judge.step(step)))
        .or_else(|| judge.pivot())
        .or_else(|| judge.wakes())
}

struct Judge<'a> {
    scene: &'a Scene,
    before: &'a State,
    turn: &'a Turn,
    after: &'a State,
}

impl Judge<'_> {
    fn sends(&self) -> Option<Violation> {
        self.turn.effects.iter().find_map(|effect| match effect {
            Effect::Perform { .. } | Effect::Ask { .. } if self.after.saga.ended.is_some() => {
                Some(Violation::NotAbsorbed)
            }
            Effect::Perform { op, .. } if !self.after.saga.op(*op).is_calling() => {
                Some(Violation::Unwritten(*op))
            }
            Effect::Perform { .. } | Effect::Ask { .. } | Effect::Claim | Effect::Wake(_) => None,
        })
    }

    fn operation(&self, op: OpRef) -> Option<Violation> {
        let (known, world) = (self.after.saga.op(op), self.after.world(op));
        let is_done = matches!(known.settled, Some(Settled::Done { .. }));
        // What has no effect has none twice.
        let has_effect = !self.scene.definition.steps[op.step].effect_none;
        let once_more = is_done && world.effects > 0 && self.scene.promise(op).threatens(world);
        let is_twice = world.effects > 1 || once_more;
        if is_twice && has_effect {
            return Some(Violation::Twice(op));
        }
        let is_forward = self.after.saga.direction == Direction::Forward;
        if is_done && world.effects == 0 && is_forward {
            return Some(Violation::Lost(op));
        }
        let retry = &self.scene.operation(op).retry;
        if world.attempts > retry.max_attempts {
            return Some(Violation::Attempts(op));
        }
        (world.spent_ms > retry.budget_ms).then_some(Violation::Budget(op))
    }

    fn step(&self, index: usize) -> Option<Violation> {
        let (was, is) = (&self.before.saga.steps[index], &self.after.saga.steps[index]);
        let step = &self.scene.definition.steps[index];
        let undo_begins = is.compensation.enabled && !was.compensation.enabled;
        let is_over = is.undone && !was.undone;
        if !undo_begins && !is_over {
            return None;
        }
        let has_effect = step.action.is_some() && !step.effect_none && is.started && !is.skipped;
        if let Some(dependant) = step.dependants.iter().find(|after| !self.after.saga.steps[**after].undone) {
            return Some(Violation::OutOfOrder { step: index, dependant: *dependant });
        }
        let fenced = step.compensation.as_ref().is_some_and(|undo| undo.fenced);
        let is_unknown = is.action.knowledge() == Knowledge::Possible;
        if has_effect && is_unknown && !fenced {
            return Some(Violation::UndoneUnknown(index));
        }
        if is_over && has_effect { self.left_over(index) } else { None }
    }

    fn left_over(&self, index: usize) -> Option<Violation> {
        let [action, compensation] = &self.after.world[index];
        let undone = match compensation.undone {
            Some(undone) => u8::from(undone),
            None => compensation.effects,
        };
        if undone > action.effects {
            return Some(Violation::UndoneNothing(index));
        }
        let is_left = action.effects > undone || self.scene.promise(OpRef::action(index)).threatens(action);
        is_left.then_some(Violation::LeftOver(index))
    }

    fn pivot(&self) -> Option<Violation> {
        let (was, is) = (&self.before.saga, &self.after.saga);
        if was.direction == is.direction || is.direction != Direction::Undo {
            return None;
        }
        let pivot = self.scene.definition.pivot()?;
        let may_be_done = match is.steps[pivot].action.knowledge() {
            Knowledge::Possible | Knowledge::Done => true,
            Knowledge::Unsent | Knowledge::Rejected | Knowledge::Sealed => false,
        };
        let is_done = self.after.world[pivot][OpKind::Action as usize].effects > 0;
        (may_be_done || is_done).then_some(Violation::PastPivot(pivot))
    }

    /// Every open state wakes by itself, or says that a person is needed.
    fn wakes(&self) -> Option<Violation> {
        let saga = &self.after.saga;
        if saga.ended.is_some() || saga.stuck.is_some() {
            return None;
        }
        let effects = &self.turn.effects;
        let wakes_by = |due| effects.iter().any(|effect| matches!(effect, Effect::Wake(at) if *at <= due));
        if saga.accepting.is_some() {
            let is_claiming = effects.iter().any(|effect| matches!(effect, Effect::Claim));
            let wakes = saga.accepting.as_ref().is_some_and(|accepting| wakes_by(accepting.due));
            return (!is_claiming && !wakes).then_some(Violation::Asleep(None));
        }
        let mut somebody_knows = false;
        for op in &self.scene.ops {
            let called = effects.iter().filter_map(|effect| effect.call()).any(|call| call.op == *op);
            let known = saga.op(*op);
            match &known.phase {
                Phase::Idle => {}
                Phase::Dead { .. } => somebody_knows = true,
                Phase::Calling if called => somebody_knows = true,
                Phase::Calling => return Some(Violation::Asleep(Some(*op))),
                Phase::Send { .. }
                | Phase::Ask { .. }
                | Phase::InProgress { .. }
                | Phase::Verify { .. }
                | Phase::Parked { .. } => {
                    let due = self.after.due(*op).unwrap_or(NOW);
                    if !called && !wakes_by(due) {
                        return Some(Violation::Asleep(Some(*op)));
                    }
                    somebody_knows = true;
                }
            }
        }
        (!somebody_knows).then_some(Violation::Asleep(None))
    }
}

/// The operations that have just become a person's, because nobody can tell what became of them.
///
/// What is a person's by design is not among them: a refused compensation or step after the pivot, attempts that are over with
/// nothing executed.
pub(crate) fn needs_person(scene: &Scene, before: &State, turn: &Turn) -> Vec<OpRef> {
    let is_dead = |state: &State, op: OpRef| matches!(state.saga.op(op).phase, Phase::Dead { .. });
    let mut ops = scene.ops.clone();
    ops.retain(|op| {
        !is_dead(before, *op)
            && is_dead(&turn.after, *op)
            && turn.after.saga.op(*op).knowledge() == Knowledge::Possible
    });
    ops
}

/// Terminal absorbs: whatever still comes to a saga that has ended moves nothing.
pub(crate) fn absorbs(scene: &Scene, machine: &dyn Machine, state: &State) -> Option<Violation> {
    let evidence = |op: OpRef, evidence: Evidence| Input::Evidence {
        op,
        generation: 1,
        evidence,
        source: "callback".into(),
    };
    let mut inputs = vec![Input::Tick, Input::TakeOver { epoch: 2, lapsed: true }];
    for op in &scene.ops {
        let fact = (*scene.plan(*op).fact).clone();
        inputs.push(evidence(*op, Evidence::Done { fact }));
        inputs.push(evidence(*op, Evidence::Rejected { reason: String::new(), explicit: true }));
        inputs.push(evidence(*op, Evidence::Sealed));
    }
    let moves = |input: &Input| match machine.decide(&state.saga, input, AT_NOW) {
        Err(_) => false,
        Ok(decision) => {
            decision.after.ended != state.saga.ended
                || decision.effects.iter().any(|effect| effect.call().is_some())
                || decision.entries.iter().any(|entry| !is_remark(entry))
        }
    };
    inputs.iter().any(moves).then_some(Violation::NotAbsorbed)
}

fn is_remark(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Contradiction { .. })
}
