//! The moves of a story, and the shortest of its kind.

use amends_core::Saga;

use super::Ending;
use crate::machine::Machine;
use crate::moves::{Move, moves};
use crate::safety::{Violation, absorbs, judge, needs_person};
use crate::scene::Scene;
use crate::search::begin_state;
use crate::state::{Fingerprint, Packer, State, normalise};
use crate::turn::{Turn, turn};

/// How a saga begins, and what then happens to it.
pub(super) struct Plot {
    begin: usize,
    moves: Vec<Move>,
    ending: Ending,
}

/// One thing that happens.
pub(super) struct Happening {
    pub(super) before: State,
    pub(super) happens: Move,
    pub(super) turn: Turn,
    /// What it comes to, if it is the last.
    pub(super) ending: Option<Ending>,
}

impl Plot {
    /// Finds the moves that lead from state to state and then to an ending. Twins may have changed places between two states of the
    /// path: what is followed here is one saga, through states that are the same but for that.
    pub(super) fn along(
        scene: &Scene,
        machine: &dyn Machine,
        packer: &mut Packer<'_>,
        path: &[Fingerprint],
        ending: Ending,
    ) -> Option<Self> {
        let (first, rest) = path.split_first()?;
        let mut fingerprint = |state: &State| {
            let packed = packer.pack(&mut state.clone());
            packer.fingerprint(&packed)
        };
        let begins = begins(scene, machine);
        let begin = begins.iter().position(|(_, state)| fingerprint(state) == *first)?;
        let mut state = begins.into_iter().nth(begin)?.1;
        let mut plot = Self { begin, moves: Vec::new(), ending };
        for wanted in rest {
            let (happens, after) = cheapest(scene, machine, &state, |turn| {
                (fingerprint(&turn.after) == *wanted).then_some(ending)
            })?;
            plot.moves.push(happens);
            state = after;
        }
        // What comes after the end is found at the end itself.
        if !is_after_the_end(scene, machine, &state, ending) {
            let before = state.clone();
            let (happens, _) =
                cheapest(scene, machine, &state, |turn| reached(scene, machine, &before, turn, ending))?;
            plot.moves.push(happens);
        }
        Some(plot)
    }

    /// Leaves out whatever the ending does not need, and plays what is left.
    pub(super) fn shortened(mut self, scene: &Scene, machine: &dyn Machine) -> (Saga, Vec<Happening>) {
        let steps = 0..scene.definition.steps.len();
        for step in steps {
            self.leave_out(scene, machine, |happens, _| happens.step() == Some(step));
        }
        let mut at = self.moves.len();
        while at > 0 {
            at -= 1;
            self.leave_out(scene, machine, |_, index| index == at);
            at = at.min(self.moves.len());
        }
        let happenings = self.play(scene, machine).unwrap_or_default();
        let (saga, _) = begins(scene, machine).swap_remove(self.begin);
        (saga, happenings)
    }

    fn leave_out(
        &mut self,
        scene: &Scene,
        machine: &dyn Machine,
        is_left_out: impl Fn(&Move, usize) -> bool,
    ) {
        let kept: Vec<Move> = self
            .moves
            .iter()
            .enumerate()
            .filter(|(index, happens)| !is_left_out(happens, *index))
            .map(|(_, happens)| *happens)
            .collect();
        if kept.len() == self.moves.len() {
            return;
        }
        let shorter = Self { begin: self.begin, moves: kept, ending: self.ending };
        if shorter.play(scene, machine).is_some() {
            *self = shorter;
        }
    }

    /// Lets it happen. `None` if it cannot, or does not come to its ending.
    fn play(&self, scene: &Scene, machine: &dyn Machine) -> Option<Vec<Happening>> {
        let mut state = begins(scene, machine).swap_remove(self.begin).1;
        let mut faults_left = scene.faults;
        let mut happenings = Vec::with_capacity(self.moves.len());
        for (index, happens) in self.moves.iter().enumerate() {
            let possible = moves(scene, machine, &state, faults_left);
            let (_, faults) = possible.into_iter().find(|(possible, _)| possible == happens)?;
            faults_left -= faults;
            let turn = turn(scene, machine, &state, happens)?;
            let is_last = index + 1 == self.moves.len();
            let ending = reached(scene, machine, &state, &turn, self.ending).filter(|_| is_last);
            let mut after = turn.after.clone();
            normalise(scene, &mut after);
            let before = std::mem::replace(&mut state, after);
            happenings.push(Happening { before, happens: *happens, turn, ending });
        }
        let ends = match happenings.last() {
            Some(last) => last.ending.is_some(),
            None => is_after_the_end(scene, machine, &state, self.ending),
        };
        ends.then_some(happenings)
    }
}

/// How sagas begin, and the states they begin in.
fn begins(scene: &Scene, machine: &dyn Machine) -> Vec<(Saga, State)> {
    let begin = |saga: Saga| {
        let mut state = begin_state(saga.clone());
        normalise(scene, &mut state);
        (saga, state)
    };
    scene.begin(machine).into_iter().map(|decision| begin(decision.after)).collect()
}

/// The move with the fewest faults that leads where it should, and the state after it.
fn cheapest(
    scene: &Scene,
    machine: &dyn Machine,
    state: &State,
    mut is_wanted: impl FnMut(&Turn) -> Option<Ending>,
) -> Option<(Move, State)> {
    let mut possible = moves(scene, machine, state, scene.faults);
    possible.sort_by_key(|(_, faults)| *faults);
    possible.into_iter().find_map(|(happens, _)| {
        let turn = turn(scene, machine, state, &happens)?;
        is_wanted(&turn)?;
        let mut after = turn.after;
        normalise(scene, &mut after);
        Some((happens, after))
    })
}

/// Whether a turn comes to an ending of this kind, and to which: it may be a twin's.
fn reached(
    scene: &Scene,
    machine: &dyn Machine,
    before: &State,
    turn: &Turn,
    wanted: Ending,
) -> Option<Ending> {
    match wanted {
        Ending::Violation(violation) => {
            let found = judge(scene, before, turn).or_else(|| {
                let mut after = turn.after.clone();
                normalise(scene, &mut after);
                after.saga.ended.and_then(|_| absorbs(scene, machine, &after))
            });
            found.filter(|found| found.is_like(&violation)).map(Ending::Violation)
        }
        Ending::Person(op) => needs_person(scene, before, turn).contains(&op).then_some(wanted),
    }
}

fn is_after_the_end(scene: &Scene, machine: &dyn Machine, state: &State, ending: Ending) -> bool {
    matches!(ending, Ending::Violation(Violation::NotAbsorbed))
        && state.saga.ended.is_some()
        && absorbs(scene, machine, state).is_some()
}
