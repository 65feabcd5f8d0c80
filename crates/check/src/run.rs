//! A whole check: the definition as it is, and again without each guarantee in turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use amends_core::definition::{Definition, from_json, from_toml};
use amends_core::{OpKind, OpRef};

use crate::advice::advice;
use crate::cure::{cure, may_end_by_deadline};
use crate::guarantee::{Declared, declared};
use crate::machine::{Core, Machine};
use crate::options::{FAULTS_MAX, Options};
use crate::report::{PersonNeeded, Problem, Report, Trust, Verdict};
use crate::scene::Scene;
use crate::search::{Found, Limits, search};
use crate::story::{Ending, Story, tell};
use crate::trust;

/// Explores a definition.
///
/// The same definition and options give the same report, unless the time limit is reached.
#[must_use]
pub fn check(definition: &Arc<Definition>, options: &Options) -> Report {
    check_machine(&Core, definition, options)
}

/// Reads a definition from TOML, or from JSON if it begins with a brace, and explores it. What registration refuses is not
/// explored: its report is `refused`, with every problem.
#[must_use]
pub fn check_text(text: &str, options: &Options) -> Report {
    let read = if text.trim_start().starts_with('{') { from_json(text) } else { from_toml(text) };
    match read {
        Ok(checked) => check(&checked.definition, options),
        Err(problems) => {
            let problems = problems.iter().map(Problem::from).collect();
            Report { problems, ..empty(Verdict::Refused, options) }
        }
    }
}

/// Explores a definition with another machine in the place of the core; see [`Machine`].
#[must_use]
pub fn check_machine(machine: &dyn Machine, definition: &Arc<Definition>, options: &Options) -> Report {
    let stop = AtomicBool::new(false);
    let check = Check { machine, definition, options, limits: limits(options, &stop) };
    let (base, trust) = trust::explore(&check);
    let verdict = if base.unsafe_story.is_some() {
        Verdict::Unsafe
    } else if !base.is_finished {
        Verdict::Unfinished
    } else if base.persons.is_empty() {
        Verdict::Ends
    } else {
        Verdict::MayNeedAPerson
    };
    let mut report = Report {
        states: base.states,
        depth: base.depth,
        problems: base.unsafe_story.map(fault_of_amends).into_iter().collect(),
        trust,
        advice: advice(definition),
        ..empty(verdict, options)
    };
    for (op, story) in base.persons {
        report.persons.push(check.person(op, story));
        if may_end_by_deadline(definition, op) {
            report.advice.push(format!(
                "`{}` is fenced: where it would need a person, a `deadline` lets the saga end undone instead.",
                definition.steps[op.step].name
            ));
        }
    }
    report
}

fn limits<'s>(options: &Options, stop: &'s AtomicBool) -> Limits<'s> {
    Limits {
        states_max: options.states_max,
        until: Instant::now().checked_add(options.time_max),
        every_order: options.every_order,
        stop,
    }
}

fn empty(verdict: Verdict, options: &Options) -> Report {
    Report {
        verdict,
        faults: options.faults.min(FAULTS_MAX),
        states: 0,
        depth: 0,
        problems: Vec::new(),
        persons: Vec::new(),
        trust: Vec::new(),
        advice: Vec::new(),
    }
}

/// The rules are meant to be safe whatever a definition declares: where they are not, they are wrong.
fn fault_of_amends(story: Story) -> Problem {
    Problem {
        line: None,
        path: story.path,
        reason: story.harm,
        remedy: "this is a fault of amends, not of the definition: please report it, with the definition and this story".into(),
        story: story.lines,
    }
}

/// What is to be checked, and how.
pub(crate) struct Check<'a> {
    pub(crate) machine: &'a dyn Machine,
    pub(crate) definition: &'a Arc<Definition>,
    pub(crate) options: &'a Options,
    pub(crate) limits: Limits<'a>,
}

/// What an exploration found, told.
pub(crate) struct Told {
    pub(crate) states: usize,
    pub(crate) depth: usize,
    pub(crate) is_finished: bool,
    pub(crate) unsafe_story: Option<Story>,
    /// In the order of the definition, actions first.
    pub(crate) persons: Vec<(OpRef, Story)>,
    /// The guarantees that made a difference.
    pub(crate) leant_on: BTreeSet<(usize, crate::guarantee::Guarantee)>,
}

impl Check<'_> {
    /// Explores the definition, or the definition without a guarantee.
    pub(crate) fn explore(&self, dropped: Option<Declared>) -> Told {
        let scene = self.scene(self.definition, dropped);
        let found = search(&scene, self.machine, self.limits);
        let leant_on = scene.leant_on.all();
        self.told(&scene, found, leant_on)
    }

    fn scene(&self, definition: &Arc<Definition>, dropped: Option<Declared>) -> Scene {
        let faults = u8::try_from(self.options.faults.min(FAULTS_MAX)).unwrap_or(u8::MAX);
        let dropped = dropped.map(|declared| (declared.participant, declared.guarantee));
        Scene::new(definition, faults, dropped, !self.options.every_order)
    }

    fn told(
        &self,
        scene: &Scene,
        mut found: Found<'_>,
        leant_on: BTreeSet<(usize, crate::guarantee::Guarantee)>,
    ) -> Told {
        let mut tell =
            |path: &[_], ending, instead| tell(scene, self.machine, &mut found.packer, path, ending, instead);
        let unsafe_story =
            found.violation.as_ref().map(|(violation, path)| tell(path, Ending::Violation(*violation), None));
        let mut persons: Vec<(OpRef, Story)> = Vec::new();
        for (op, path) in &found.persons {
            persons.push((*op, tell(path, Ending::Person(*op), None)));
        }
        // What can happen to a step can happen to its twins.
        for (op, path) in &found.persons {
            for twin in scene.twins.iter().filter(|group| group.contains(&op.step)).flatten() {
                let twin = OpRef { step: *twin, kind: op.kind };
                if persons.iter().all(|(known, _)| *known != twin) {
                    persons.push((twin, tell(path, Ending::Person(*op), Some((op.step, twin.step)))));
                }
            }
        }
        persons.sort_by_key(|(op, _)| (op.step, op.kind == OpKind::Compensation));
        Told {
            states: found.states,
            depth: found.depth,
            is_finished: found.is_finished,
            unsafe_story,
            persons,
            leant_on,
        }
    }

    fn person(&self, op: OpRef, story: Story) -> PersonNeeded {
        let needs_person = |definition: &Arc<Definition>| {
            let scene = self.scene(definition, None);
            let found = search(&scene, self.machine, self.limits);
            let is_known = found.is_finished && found.violation.is_none();
            !is_known || found.persons.iter().any(|(of, _)| scene.are_twins(*of, op))
        };
        PersonNeeded {
            step: self.definition.steps[op.step].name.clone(),
            operation: op.kind.as_str(),
            story: story.lines,
            cure: cure(self.definition, op, &needs_person),
        }
    }

    /// Every guarantee that can be dropped.
    pub(crate) fn declared(&self) -> Vec<Declared> {
        if self.options.trust { declared(self.definition) } else { Vec::new() }
    }

    /// A guarantee in a report, before it is known whether it is needed.
    pub(crate) fn trust(&self, declared: Declared) -> Trust {
        let participant = self.definition.participants.keys().nth(declared.participant);
        Trust {
            participant: participant.cloned().unwrap_or_default(),
            guarantee: declared.name,
            needed: None,
            story: Vec::new(),
            harm: String::new(),
        }
    }
}
