//! `[[step]]`: names and order first, then, once it is known where each stands towards the pivot, its operations.

use std::collections::BTreeSet;

use super::builder::{Builder, StepPlaces};
use super::diagnostic::Place;
use super::fields::Fields;
use super::graph;
use super::names::{read_name, read_state};
use super::policy::Policy;
use super::{Step, StepKind};
use crate::OpKind;

/// The most steps that a definition may have.
pub const STEPS_MAX: usize = 1_000;

const STEP_EXAMPLE: &str = "[[step]] name = \"reserve\"";

impl<'t> Builder<'t> {
    pub(super) fn read_steps(&mut self, fields: &mut Fields<'t>, defaults: &Policy) -> Vec<Step> {
        let Some(at) = fields.require("step", STEP_EXAMPLE, &mut self.report) else { return Vec::new() };
        let items = at
            .list("steps", &format!("[{{ name = {:?} }}]", "reserve"), &mut self.report)
            .unwrap_or_default();
        if items.len() > STEPS_MAX {
            self.report.problem(
                &at.place,
                format!("{} steps are more than the {STEPS_MAX} there may be", items.len()),
                "split the saga",
            );
            return Vec::new();
        }
        if items.is_empty() && matches!(at.node.kind, super::tree::Kind::List(_)) {
            self.report.problem(&at.place, "there are no steps", format!("add one, as in `{STEP_EXAMPLE}`"));
        }
        // A step that is no table is reported and then left out, which would shift the indexes: so stop there.
        let tables: Vec<_> =
            items.iter().filter_map(|item| item.fields(STEP_EXAMPLE, &mut self.report)).collect();
        if tables.len() < items.len() {
            return Vec::new();
        }
        self.read_steps_of(tables, defaults)
    }

    fn read_steps_of(&mut self, mut tables: Vec<Fields<'t>>, defaults: &Policy) -> Vec<Step> {
        let mut steps: Vec<Step> =
            tables.iter_mut().enumerate().map(|(i, fields)| self.read_head(i, fields)).collect();
        let problems = self.report.problems();
        for (i, fields) in tables.iter_mut().enumerate() {
            steps[i].after = self.read_after(i, fields, &steps[i].name);
        }
        for i in 0..steps.len() {
            for earlier in steps[i].after.clone() {
                steps[earlier].dependants.push(i);
            }
        }
        // What follows from an order that was not understood would only be noise.
        let is_order_known = self.report.problems() == problems;
        let kinds = if is_order_known { self.place_towards_pivot(&steps) } else { vec![None; steps.len()] };
        for (i, mut fields) in tables.into_iter().enumerate() {
            steps[i].kind = kinds[i].unwrap_or(StepKind::Compensatable);
            self.read_operations(i, &mut steps[i], &mut fields, defaults);
            if kinds[i].is_some() {
                super::rules::check_step(&steps[i], &self.places[i], &mut self.report);
            }
            fields.finish(&mut self.report);
        }
        steps
    }

    /// Everything about a step but its order and its operations.
    fn read_head(&mut self, index: usize, fields: &mut Fields<'t>) -> Step {
        let report = &mut self.report;
        let mut name = "";
        if let Some(at) = fields.require("name", "name = \"reserve\"", report) {
            name = read_name(&at, "a step", "reserve", report).unwrap_or_default();
            if let Some(first) = self.steps.get(name) {
                let line = self.places[*first].step.line;
                let first = if line > 0 { format!("in line {line}") } else { format!("at step[{first}]") };
                report.problem(
                    &at.place,
                    format!("there is another step `{name}` {first}"),
                    "give each step its own name",
                );
            } else if matches!(at.node.kind, super::tree::Kind::Text(_)) {
                self.steps.insert(name, index);
            }
        }
        let reaches = fields.get("reaches").and_then(|at| read_state(&at, report));
        let pivot = fields.get("pivot").filter(|at| at.boolean(report) == Some(true));
        let mut effect_none = false;
        if let Some(at) = fields.get("effect") {
            match at.text("none", report) {
                Some("none") => effect_none = true,
                Some(_) => report.problem(
                    &at.place,
                    "`effect` may only be \"none\"",
                    "write `effect = \"none\"` if there is nothing to undo, or leave it out",
                ),
                None => {}
            }
        }
        self.places.push(StepPlaces {
            step: fields.place.clone(),
            pivot: pivot.map(|at| at.place),
            action: None,
            compensation: None,
        });
        Step {
            name: name.to_owned(),
            after: Vec::new(),
            dependants: Vec::new(),
            reaches,
            kind: StepKind::Compensatable,
            effect_none,
            action: None,
            compensation: None,
        }
    }

    fn read_after(&mut self, index: usize, fields: &mut Fields<'t>, name: &str) -> Vec<usize> {
        let Some(at) = fields.get("after") else { return index.checked_sub(1).into_iter().collect() };
        let mut after = BTreeSet::new();
        for item in at.list("names of steps", "[\"reserve\"]", &mut self.report).unwrap_or_default() {
            let Some(text) = item.text("reserve", &mut self.report) else { continue };
            match self.steps.get(text) {
                Some(&earlier) if earlier == index => {
                    self.report.problem(
                        &item.place,
                        format!("step `{name}` waits for itself"),
                        "remove it from its `after`",
                    );
                }
                Some(&earlier) => {
                    if !after.insert(earlier) {
                        self.report.problem(
                            &item.place,
                            format!("`{text}` is named twice"),
                            "keep one of the two",
                        );
                    }
                }
                None => {
                    let shown: String = text.chars().take(super::NAME_CHARS_MAX).collect();
                    let remedy = match self.nearest_step(text) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "name a step of this definition".into(),
                    };
                    self.report.problem(&item.place, format!("there is no step `{shown}`"), remedy);
                }
            }
        }
        after.into_iter().collect()
    }

    /// Reports cycles and what stands wrongly towards the pivot; where a step stands, if that can be told.
    fn place_towards_pivot(&mut self, steps: &[Step]) -> Vec<Option<StepKind>> {
        let before = match graph::before(steps) {
            Ok(before) => before,
            Err(graph::Cycle(cycle)) => {
                self.report_cycle(steps, &cycle);
                return vec![None; steps.len()];
            }
        };
        self.before = Some(before);
        let before = self.before.as_deref().unwrap_or_default();
        let pivots: Vec<usize> = (0..steps.len()).filter(|step| self.places[*step].pivot.is_some()).collect();
        let pivot = pivots.first().copied();
        if let Some(pivot) = pivot
            && pivots.len() > 1
        {
            for second in &pivots[1..] {
                let at = self.places[*second].pivot.clone().unwrap_or(Place::root(0));
                self.report.problem(
                    &at,
                    format!(
                        "`{}` is a second pivot; `{}` is the point of no return already",
                        steps[*second].name, steps[pivot].name
                    ),
                    "keep one `pivot = true`; what comes after the pivot is driven forward until it is done",
                );
            }
            return vec![None; steps.len()];
        }
        let kinds = graph::kinds(steps.len(), pivot, before);
        for (i, step) in steps.iter().enumerate() {
            if let (None, Some(pivot)) = (kinds[i], pivot) {
                let pivot = &steps[pivot].name;
                self.report.problem(
                    &self.places[i].step,
                    format!("step `{}` is neither before nor after the pivot `{pivot}`: could it be undone or not?", step.name),
                    format!("let `{pivot}` come after it (add it to the `after` of `{pivot}`), or put `{pivot}` into its own `after`"),
                );
            }
        }
        kinds
    }

    fn report_cycle(&mut self, steps: &[Step], cycle: &[usize]) {
        // A cycle of a hundred steps is understood from its beginning and its end.
        const SHOWN_MAX: usize = 20;
        let Some(&first) = cycle.first() else { return };
        let mut names: Vec<&str> = cycle.iter().map(|step| steps[*step].name.as_str()).collect();
        if names.len() > SHOWN_MAX {
            names.splice(SHOWN_MAX / 2..names.len() - SHOWN_MAX / 2, ["…"]);
        }
        names.push(&steps[first].name);
        self.report.problem(
            &self.places[first].step,
            format!("these steps wait for each other: {}", names.join(" → ")),
            "remove one of them from the `after` of the next",
        );
    }

    fn read_operations(&mut self, index: usize, step: &mut Step, fields: &mut Fields<'t>, defaults: &Policy) {
        let policy = defaults.overlaid(fields, &mut self.report);
        if let Some(at) = fields.get("action") {
            self.places[index].action = Some(at.place.clone());
            step.action = Some(self.read_operation(&at, index, OpKind::Action, step.kind, &policy, None));
        }
        if let Some(at) = fields.get("compensation") {
            self.places[index].compensation = Some(at.place.clone());
            // Without an action nobody is the default; that there is none is reported as such.
            let to = step.action.as_ref().map_or("", |action| action.to.as_str()).to_owned();
            step.compensation =
                Some(self.read_operation(&at, index, OpKind::Compensation, step.kind, &policy, Some(&to)));
        }
    }
}
