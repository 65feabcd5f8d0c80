//! States in a few dozen bytes, and their fingerprints.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use amends_core::{Accepting, Direction, Ended, OpKind, OpRef, Saga, Settled, StepState, UndoReason};

use super::shelf::Shelf;
use super::{State, normalise};
use crate::scene::{NOW, Scene};

/// A state in its normal form: a word about the saga as a whole, then three for each step: its flags, and the numbers of its
/// operations' states on the [`Shelf`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed(Box<[u32]>);

/// 128 bits that tell states apart. That two of ten million states share one is less likely than 1 in 10^23.
pub(crate) type Fingerprint = (u64, u64);

const WORDS_A_STEP: usize = 3;

const UNDO: u32 = 1;
const TURNED: u32 = 1 << 1;
const PENDING: u32 = 1 << 2;
const OVERDUE: u32 = 1 << 3;
const ACCEPTING: u32 = 1 << 4;
const STUCK: u32 = 1 << 5;
const COMPLETED: u32 = 1 << 6;
const COMPENSATED: u32 = 1 << 7;
const RESOLVED: u32 = 1 << 8;

const STARTED: u32 = 1;
const DONE: u32 = 1 << 1;
const SKIPPED: u32 = 1 << 2;
const UNDONE: u32 = 1 << 3;

/// Packs and unpacks the states of one exploration.
pub(crate) struct Packer<'s> {
    scene: &'s Scene,
    shelf: Shelf,
    /// What all sagas of the exploration have in common.
    mould: Saga,
}

impl<'s> Packer<'s> {
    /// `mould`: any saga of the exploration.
    pub(crate) fn new(scene: &'s Scene, mould: Saga) -> Self {
        Self { scene, shelf: Shelf::default(), mould }
    }

    /// Brings a state into its normal form and packs it.
    pub(crate) fn pack(&mut self, state: &mut State) -> Packed {
        normalise(self.scene, state);
        let mut words = Vec::with_capacity(1 + WORDS_A_STEP * state.saga.steps.len());
        words.push(saga_word(&state.saga));
        for (step, [action, compensation]) in state.saga.steps.iter().zip(&state.world) {
            words.push(step_word(step));
            words.push(self.shelf.number(&step.action, action));
            words.push(self.shelf.number(&step.compensation, compensation));
        }
        Packed(words.into_boxed_slice())
    }

    /// The state that was packed.
    pub(crate) fn unpack(&self, packed: &Packed) -> State {
        let mut saga = self.mould.clone();
        read_saga_word(&mut saga, packed.0[0]);
        let mut world = Vec::with_capacity(saga.steps.len());
        for (index, words) in packed.0[1..].chunks_exact(WORDS_A_STEP).enumerate() {
            let (action, action_world) = self.shelf.get(words[1]);
            let (compensation, compensation_world) = self.shelf.get(words[2]);
            saga.steps[index] = StepState {
                started: words[0] & STARTED != 0,
                done: words[0] & DONE != 0,
                skipped: words[0] & SKIPPED != 0,
                undone: words[0] & UNDONE != 0,
                action: action.clone(),
                compensation: compensation.clone(),
            };
            world.push([action_world.clone(), compensation_world.clone()]);
        }
        for op in &self.scene.ops {
            self.give_facts(&mut saga, *op);
        }
        State { saga, world }
    }

    /// What operations answer differs from one to the other, and is not kept with their states.
    fn give_facts(&self, saga: &mut Saga, op: OpRef) {
        let plan = self.scene.plan(op);
        let step = &mut saga.steps[op.step];
        let known = match op.kind {
            OpKind::Action => &mut step.action,
            OpKind::Compensation => &mut step.compensation,
        };
        if let Some(Settled::Done { fact, serial }) = &mut known.settled {
            *fact = plan.fact.clone();
            serial.clone_from(&plan.serial);
        }
        if known.serial.is_some() {
            known.serial.clone_from(&plan.serial);
        }
    }

    /// The fingerprint of a state, the same for states in which twins have changed places.
    pub(crate) fn fingerprint(&self, packed: &Packed) -> Fingerprint {
        let mut sorted;
        let mut words: &[u32] = &packed.0;
        if !self.scene.twins.is_empty() {
            sorted = packed.clone();
            self.order_twins(&mut sorted);
            words = &sorted.0;
        }
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            words.hash(&mut hasher);
            hasher.finish()
        };
        (half(0x9e37_79b9_7f4a_7c15), half(0x2545_f491_4f6c_dd1d))
    }

    fn order_twins(&self, packed: &mut Packed) {
        for group in &self.scene.twins {
            let at = |step: usize| 1 + WORDS_A_STEP * step;
            let mut states: Vec<[u32; WORDS_A_STEP]> =
                group.iter().map(|step| std::array::from_fn(|word| packed.0[at(*step) + word])).collect();
            states.sort_unstable();
            for (step, state) in group.iter().zip(states) {
                packed.0[at(*step)..at(*step) + WORDS_A_STEP].copy_from_slice(&state);
            }
        }
    }
}

fn saga_word(saga: &Saga) -> u32 {
    let flag = |is: bool, bit: u32| if is { bit } else { 0 };
    let ended = match saga.ended {
        None => 0,
        Some(Ended::Completed) => COMPLETED,
        Some(Ended::Compensated) => COMPENSATED,
        Some(Ended::Resolved) => RESOLVED,
    };
    ended
        | flag(saga.direction == Direction::Undo, UNDO)
        | flag(saga.undo.is_some(), TURNED)
        | flag(saga.undo_pending.is_some(), PENDING)
        | flag(saga.overdue, OVERDUE)
        | flag(saga.accepting.is_some(), ACCEPTING)
        | flag(saga.stuck.is_some(), STUCK)
}

fn read_saga_word(saga: &mut Saga, word: u32) {
    let because = |bit: u32| (word & bit != 0).then_some((UndoReason::Cancel, None));
    saga.direction = if word & UNDO != 0 { Direction::Undo } else { Direction::Forward };
    saga.undo = because(TURNED);
    saga.undo_pending = because(PENDING);
    saga.overdue = word & OVERDUE != 0;
    saga.accepting = (word & ACCEPTING != 0).then_some(Accepting { due: NOW, refused: 0 });
    saga.stuck = (word & STUCK != 0).then(String::new);
    saga.ended = match word & (COMPLETED | COMPENSATED | RESOLVED) {
        COMPLETED => Some(Ended::Completed),
        COMPENSATED => Some(Ended::Compensated),
        RESOLVED => Some(Ended::Resolved),
        _ => None,
    };
}

fn step_word(step: &StepState) -> u32 {
    let flag = |is: bool, bit: u32| if is { bit } else { 0 };
    flag(step.started, STARTED)
        | flag(step.done, DONE)
        | flag(step.skipped, SKIPPED)
        | flag(step.undone, UNDONE)
}
