//! The exploration: breadth first, so that the first story found is a shortest one.
//!
//! # What is left out
//!
//! What happens to one step changes nothing for another, but for three things: a step begins when those before it are done, it is undone
//! when those after it are undone, and a refusal, a cancel or a deadline turns the whole saga round. Where none of them can come between, the
//! moves of different steps lead to the same state in every order, and one order is enough:
//!
//! - while undoing, for it never turns again;
//! - going forward, once the faults of a story are used up and no step is in a state that can turn the saga without a further one: then steps
//!   are driven one after the other;
//! - going forward with one fault left: what costs it and cannot turn the saga happens to the step whose turn it then is, or, later in the
//!   same story, to another when its turn has come.
//!
//! Every rule of [`crate::safety`] looks at one step and those that come after it, which come one after the other in every order; so none is broken
//! only in an order that is left out. What happens to all steps at once, a crash, is kept in every state that is left. The tests of this crate explore
//! small definitions both ways and compare.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use amends_core::OpRef;

use crate::machine::Machine;
use crate::moves::moves;
use crate::order::reduce;
use crate::safety::{Violation, absorbs, judge, needs_person};
use crate::scene::Scene;
use crate::state::{Fingerprint, Packed, Packer, State};
use crate::turn::turn;
use crate::visited::Visited;

/// What one exploration may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'s> {
    pub(crate) states_max: usize,
    /// When the time is over; `None`: never.
    pub(crate) until: Option<Instant>,
    pub(crate) every_order: bool,
    /// Set once nobody wants to know any more.
    pub(crate) stop: &'s AtomicBool,
}

impl Limits<'_> {
    fn are_reached(&self, states: usize) -> bool {
        let is_over = |until| Instant::now() >= until;
        states >= self.states_max || self.stop.load(Ordering::Relaxed) || self.until.is_some_and(is_over)
    }
}

/// What one exploration found.
pub(crate) struct Found<'s> {
    /// What numbers the states: paths mean something with it alone.
    pub(crate) packer: Packer<'s>,
    pub(crate) states: usize,
    pub(crate) depth: usize,
    /// Everything was explored, or something unsafe found.
    pub(crate) is_finished: bool,
    /// What must never happen, and the states that lead to it.
    pub(crate) violation: Option<(Violation, Vec<Fingerprint>)>,
    /// Each operation that becomes a person's, and the states that first lead to it.
    pub(crate) persons: Vec<(OpRef, Vec<Fingerprint>)>,
}

/// Explores all that can happen.
pub(crate) fn search<'s>(scene: &'s Scene, machine: &'s dyn Machine, limits: Limits<'s>) -> Found<'s> {
    let begins = scene.begin(machine);
    let mould = begins[0].after.clone();
    let mut search = Search {
        scene,
        machine,
        limits,
        packer: Packer::new(scene, mould),
        visited: Visited::default(),
        next: Vec::new(),
        violation: None,
        persons: Vec::new(),
    };
    for begin in begins {
        let mut state = begin_state(begin.after);
        search.reach(&mut state, 0, None);
    }
    search.run()
}

/// A saga at its beginning: nobody has seen anything of it.
pub(crate) fn begin_state(saga: amends_core::Saga) -> State {
    let world = (0..saga.steps.len()).map(|_| Default::default()).collect();
    let mut state = State { saga, world };
    for step in 0..state.saga.steps.len() {
        if state.saga.steps[step].action.is_calling() {
            state.world_mut(OpRef::action(step)).attempts = 1;
        }
    }
    state
}

struct Search<'s> {
    scene: &'s Scene,
    machine: &'s dyn Machine,
    limits: Limits<'s>,
    packer: Packer<'s>,
    visited: Visited,
    /// The states of the next depth.
    next: Vec<Reached>,
    violation: Option<(Violation, u32)>,
    persons: Vec<(OpRef, u32)>,
}

struct Reached {
    packed: Packed,
    number: u32,
    faults: u8,
}

impl<'s> Search<'s> {
    fn run(mut self) -> Found<'s> {
        let mut depth = 0;
        let mut is_finished = true;
        while !self.next.is_empty() && self.violation.is_none() {
            for at in std::mem::take(&mut self.next) {
                if self.limits.are_reached(self.visited.len()) {
                    is_finished = false;
                    self.next.clear();
                    break;
                }
                self.expand(&at);
                if self.violation.is_some() {
                    break;
                }
            }
            depth += usize::from(!self.next.is_empty());
        }
        let path = |number| self.visited.path(number);
        Found {
            states: self.visited.len(),
            depth,
            is_finished: is_finished || self.violation.is_some(),
            violation: self.violation.map(|(violation, number)| (violation, path(number))),
            persons: self.persons.iter().map(|(op, number)| (*op, path(*number))).collect(),
            packer: self.packer,
        }
    }

    fn expand(&mut self, at: &Reached) {
        let state = self.packer.unpack(&at.packed);
        let faults_left = self.scene.faults - at.faults;
        let mut moves = moves(self.scene, self.machine, &state, faults_left);
        if !self.limits.every_order {
            reduce(self.scene, &state, faults_left, &mut moves);
        }
        for (happens, faults) in moves {
            let Some(mut turn) = turn(self.scene, self.machine, &state, &happens) else { continue };
            if let Some(violation) = judge(self.scene, &state, &turn) {
                self.violation = Some((violation, at.number));
                return;
            }
            for op in needs_person(self.scene, &state, &turn) {
                if self.persons.iter().all(|(known, _)| *known != op) {
                    self.persons.push((op, at.number));
                }
            }
            self.reach(&mut turn.after, at.faults + faults, Some(at.number));
        }
    }

    fn reach(&mut self, state: &mut State, faults: u8, parent: Option<u32>) {
        let packed = self.packer.pack(state);
        let Some(number) = self.visited.reach(self.packer.fingerprint(&packed), faults, parent) else {
            return;
        };
        if state.saga.ended.is_none() {
            self.next.push(Reached { packed, number, faults });
        } else if let Some(violation) = absorbs(self.scene, self.machine, state) {
            self.violation = Some((violation, number));
        }
    }
}
