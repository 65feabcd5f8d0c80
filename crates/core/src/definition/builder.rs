//! From the tree to the model. Every problem is reported and reading goes on, so that all are named at once.

use std::collections::HashMap;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Place, Report};
use super::duration::DURATION_MAX_MS;
use super::fields::{At, Fields, nearest};
use super::names::{read_name, read_state};
use super::participant::Participants;
use super::policy::Policy;
use super::tree::Node;
use super::uses::Use;
use super::{Checked, Definition, States};
use crate::template::Template;
use crate::{OpKind, json};

/// The most claims that a definition may name.
pub const CLAIMS_MAX: usize = 64;

/// What a text with `${…}` belongs to; it decides which paths it may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// `claims`.
    Claims,
    /// An operation, or its query.
    Operation { step: usize, kind: OpKind, query: bool },
}

/// What is known while a definition is read.
#[derive(Debug)]
pub(super) struct Builder<'t> {
    pub(super) report: Report,
    pub(super) participants: Participants,
    /// The index of each step, by name; of steps with the same name the first.
    pub(super) steps: HashMap<&'t str, usize>,
    pub(super) uses: Vec<Use>,
    /// Which steps (second index) come before which (first); `None` while, or if, it cannot be told.
    pub(super) before: Option<Vec<Vec<bool>>>,
    /// Where each step stands.
    pub(super) places: Vec<StepPlaces>,
}

/// Builds the model of a tree. What the report has of problems so far counts.
pub(super) fn build(root: &Node, mut report: Report) -> Result<Checked, Vec<Diagnostic>> {
    let at = At::root(root);
    root.check(&at.place, &mut report);
    let mut builder = Builder {
        report,
        participants: Participants::default(),
        steps: HashMap::new(),
        uses: Vec::new(),
        before: None,
        places: Vec::new(),
    };
    let built =
        at.fields("saga = \"order-fulfilment\"", &mut builder.report).map(|fields| builder.read_saga(fields));
    let warnings = builder.report.finish()?;
    let mut definition = built.expect("invariant: a tree that cannot be read has been reported");
    let tree = root.to_value();
    definition.digest = json::digest(&tree);
    definition.tree = Arc::new(tree);
    Ok(Checked { definition: Arc::new(definition), warnings })
}

impl<'t> Builder<'t> {
    fn read_saga(&mut self, mut fields: Fields<'t>) -> Definition {
        let report = &mut self.report;
        let name = fields
            .require("saga", "saga = \"order-fulfilment\"", report)
            .and_then(|at| read_name(&at, "a saga", "order-fulfilment", report));
        let version = fields
            .require("version", "version = 1", report)
            .and_then(|at| at.whole(1..=i64::MAX.cast_unsigned(), report));
        let deadline_ms = fields.get("deadline").and_then(|at| at.duration(DURATION_MAX_MS, report));
        let states = fields.get("states").and_then(|at| read_states(&at, report)).unwrap_or_default();
        let defaults = Policy::built_in();
        let defaults = match fields.get("defaults").and_then(|at| at.fields("[defaults]", report)) {
            Some(mut fields) => {
                let defaults = defaults.overlaid(&mut fields, report);
                fields.finish(report);
                defaults
            }
            None => defaults,
        };
        if let Some(at) = fields.get("participants") {
            self.participants = Participants::read(&at, report);
        }
        let claims = fields.get("claims");
        let steps = self.read_steps(&mut fields, &defaults);
        let claims = claims.map(|at| self.read_claims(&at)).unwrap_or_default();
        self.check_uses(&steps);
        self.check_guarantees(&steps);
        fields.finish(&mut self.report);
        Definition {
            name: name.unwrap_or_default().to_owned(),
            version: version.unwrap_or_default(),
            digest: String::new(),
            claims,
            deadline_ms,
            states,
            participants: std::mem::take(&mut self.participants.by_name),
            steps,
            tree: Arc::default(),
        }
    }

    fn read_claims(&mut self, at: &At<'_>) -> Vec<Template> {
        let items = at.list("claims", "[\"order:${id}\"]", &mut self.report).unwrap_or_default();
        if items.len() > CLAIMS_MAX {
            self.report.problem(
                &at.place,
                format!("{} claims are more than the {CLAIMS_MAX} there may be", items.len()),
                "claim the resource that stands for the others",
            );
            return Vec::new();
        }
        let mut claims = Vec::new();
        for item in items {
            let Some(text) = item.text("order:${id}", &mut self.report) else { continue };
            if text.is_empty() || text.len() > super::CLAIM_BYTES_MAX || text.contains(char::is_control) {
                self.report.problem(
                    &item.place,
                    format!("a claim has 1 to {} bytes and no control characters", super::CLAIM_BYTES_MAX),
                    "name the resource, as in \"order:${id}\"",
                );
            }
            claims.extend(self.read_template(text, &item, Owner::Claims));
        }
        claims
    }

    /// The step that was probably meant.
    pub(super) fn nearest_step(&self, name: &str) -> Option<&'t str> {
        // Comparing with up to a thousand names is worth it for a person's mistakes, not for a machine's.
        if self.report.is_full() { None } else { nearest(name, self.steps.keys().copied()) }
    }
}

fn read_states(at: &At<'_>, report: &mut Report) -> Option<States> {
    let mut fields = at.fields("states = { initial = \"INIT\" }", report)?;
    let mut states = States::default();
    for (name, state) in [
        ("initial", &mut states.initial),
        ("canceling", &mut states.canceling),
        ("canceled", &mut states.canceled),
        ("unknown", &mut states.unknown),
        ("manual", &mut states.manual),
        ("done", &mut states.done),
    ] {
        if let Some(name) = fields.get(name).and_then(|at| read_state(&at, report)) {
            *state = name;
        }
    }
    fields.finish(report);
    Some(states)
}

/// Where a step and its operations stand.
#[derive(Debug, Clone)]
pub(super) struct StepPlaces {
    pub(super) step: Place,
    pub(super) pivot: Option<Place>,
    pub(super) action: Option<Place>,
    pub(super) compensation: Option<Place>,
}
