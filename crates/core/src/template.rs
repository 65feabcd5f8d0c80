//! `${…}`: path substitution, and nothing more.

use std::fmt;

use serde_json::Value;

mod parse;
mod render;

pub use parse::BadTemplate;
pub(crate) use render::descend;
pub use render::{Missing, Scope, StepFacts, Why};

/// A text with `${…}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its parts in order; neighbouring texts are merged.
    pub parts: Vec<Part>,
}

/// A part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Copied as it is.
    Text(String),
    /// Substituted.
    Path(Path),
}

/// What a `${…}` names. Its display is the text between the braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// `${id}`
    Id,
    /// `${input.a.b}` (`${input}` alone has no segments)
    Input(Vec<String>),
    /// `${key}`
    Key,
    /// `${key_hash}`
    KeyHash,
    /// `${action_key}`, in a compensation
    ActionKey,
    /// `${serial}`, in an operation's own query
    Serial,
    /// `${steps.NAME.serial}`
    StepSerial {
        /// The index of the step.
        step: usize,
        /// The step's name.
        name: String,
    },
    /// `${steps.NAME.fact.a.b}`
    StepFact {
        /// The index of the step.
        step: usize,
        /// The step's name.
        name: String,
        /// The path in its fact; empty for the whole of it.
        at: Vec<String>,
    },
}

impl Path {
    /// The step whose fact or serial is named, if it is one.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        match self {
            Self::StepSerial { step, .. } | Self::StepFact { step, .. } => Some(*step),
            Self::Id | Self::Input(_) | Self::Key | Self::KeyHash | Self::ActionKey | Self::Serial => None,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments = match self {
            Self::Id => return f.write_str("id"),
            Self::Key => return f.write_str("key"),
            Self::KeyHash => return f.write_str("key_hash"),
            Self::ActionKey => return f.write_str("action_key"),
            Self::Serial => return f.write_str("serial"),
            Self::StepSerial { name, .. } => return write!(f, "steps.{name}.serial"),
            Self::Input(segments) => {
                f.write_str("input")?;
                segments
            }
            Self::StepFact { name, at, .. } => {
                write!(f, "steps.{name}.fact")?;
                at
            }
        };
        segments.iter().try_for_each(|segment| write!(f, ".{segment}"))
    }
}

impl Template {
    /// The paths it substitutes, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Path(path) => Some(path),
        })
    }
}

/// A JSON tree whose strings may have `${…}` in them. Names of members are copied as they are.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonTemplate {
    /// A tree without any `${…}`.
    Value(Value),
    /// A string with `${…}`. One whole `${path}` keeps its JSON type.
    Text(Template),
    /// An array.
    Array(Vec<JsonTemplate>),
    /// An object, sorted by the names of its members.
    Object(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    /// Calls `visit` with each path it substitutes.
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        match self {
            Self::Value(_) => {}
            Self::Text(template) => template.paths().for_each(visit),
            Self::Array(items) => items.iter().for_each(|item| item.each_path(visit)),
            Self::Object(members) => members.iter().for_each(|(_, member)| member.each_path(visit)),
        }
    }
}
