//! Definitions: the checked model, and the way from TOML or JSON to it with every problem named at once.
//!
//! Both notations are read into one tree that knows its lines; one builder makes the model of it. Equal trees have equal
//! digests, whatever they were written in. What is refused and what is only warned of is described in
//! `docs/definition.md`.

mod builder;
mod call;
mod diagnostic;
mod duration;
mod fields;
mod graph;
mod model;
mod names;
mod operation;
mod outcome;
mod participant;
mod paths;
mod policy;
mod read_json;
mod read_toml;
pub mod redis;
mod rules;
mod step;
mod tree;
mod uses;

use std::sync::Arc;

use serde_json::Value;

pub use builder::CLAIMS_MAX;
pub use call::HEADERS_MAX;
pub use diagnostic::{DIAGNOSTICS_MAX, Diagnostic};
pub use duration::{BadDuration, DURATION_MAX_MS, parse_duration, show_duration};
pub use model::{
    Body, Definition, Idempotency, Method, OnExhausted, OnUnknown, Operation, OutcomeRule, OutcomeWord,
    Participant, Query, Retry, States, Step, StepKind,
};
pub use names::{NAME_CHARS_MAX, is_name};
pub use outcome::{OUTCOME_VALUES_MAX, POINTERS_MAX};
pub use participant::PARTICIPANTS_MAX;
pub use paths::{CLAIM_BYTES_MAX, check_input};
pub use policy::{ATTEMPTS_MAX, QUERIES_MAX, TIMEOUT_MAX_MS, VERIFY_MAX};
pub use step::STEPS_MAX;
pub use uses::PATHS_MAX;

use diagnostic::{Place, Report};
use tree::Node;

/// The most bytes of a definition's text.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A definition without problems.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The definition.
    pub definition: Arc<Definition>,
    /// What may need a person or does not do what it seems to; in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a definition from TOML.
///
/// # Errors
/// All problems, in the order of the text (at most [`DIAGNOSTICS_MAX`], then how many more). Where the text is no TOML, only
/// what makes it none.
pub fn from_toml(text: &str) -> Result<Checked, Vec<Diagnostic>> {
    from_text(text, read_toml::read)
}

/// Reads a definition from JSON. Names that come twice are refused.
///
/// # Errors
/// All problems, as [`from_toml`] gives them.
pub fn from_json(text: &str) -> Result<Checked, Vec<Diagnostic>> {
    from_text(text, read_json::read)
}

/// Reads a definition from a tree, as it was stored ([`Definition::tree`]). Its diagnostics have no lines.
///
/// # Errors
/// All problems, as [`from_toml`] gives them.
pub fn from_tree(tree: &Value) -> Result<Checked, Vec<Diagnostic>> {
    let mut report = Report::default();
    if crate::json::can_be_kept(tree) {
        return builder::build(&Node::from_value(tree), report);
    }
    report.problem(
        &Place::root(0),
        format!("lists and tables are nested more than {} deep", crate::json::DEPTH_MAX),
        "make it flatter",
    );
    report.finish().and(Err(Vec::new()))
}

fn from_text(text: &str, read: fn(&str, &mut Report) -> Option<Node>) -> Result<Checked, Vec<Diagnostic>> {
    let mut report = Report::default();
    if text.len() > TEXT_BYTES_MAX {
        report.problem(
            &Place::root(0),
            format!("the text has {} bytes, more than the {TEXT_BYTES_MAX} there may be", text.len()),
            "split the saga",
        );
        return report.finish().and(Err(Vec::new()));
    }
    match read(text, &mut report) {
        Some(root) => builder::build(&root, report),
        None => report.finish().and(Err(Vec::new())),
    }
}
