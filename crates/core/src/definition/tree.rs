//! The one tree that TOML, JSON and stored definitions are read into: JSON with the line of each value.

use serde_json::{Number, Value};

use super::diagnostic::{Place, Report};
use crate::json;

/// A value and the line it stands in: that of its name where it has one.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// It was reported when it was read, and is not to be reported again.
    Unreadable,
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) node: Node,
}

impl Node {
    /// A tree without lines. The value must not be nested deeper than [`json::DEPTH_MAX`].
    pub(super) fn from_value(value: &Value) -> Self {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(value) => Kind::Bool(*value),
            Value::Number(number) => Kind::Number(number.clone()),
            Value::String(text) => Kind::Text(text.clone()),
            Value::Array(items) => Kind::List(items.iter().map(Self::from_value).collect()),
            Value::Object(members) => {
                let entry = |(name, value): (&String, &Value)| Entry {
                    name: name.clone(),
                    node: Self::from_value(value),
                };
                Kind::Table(members.iter().map(entry).collect())
            }
        };
        Self { line: 0, kind }
    }

    /// The tree without its lines.
    pub(super) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null | Kind::Unreadable => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Table(entries) => Value::Object(
                entries.iter().map(|entry| (entry.name.clone(), entry.node.to_value())).collect(),
            ),
        }
    }

    /// What it is, in words, for a message.
    pub(super) fn what(&self) -> &'static str {
        match self.kind {
            Kind::Unreadable => "unreadable",
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }

    /// Reports what no definition may have, whatever it means: names that cannot be kept, and too many levels.
    pub(super) fn check(&self, at: &Place, report: &mut Report) {
        self.check_within(at, json::DEPTH_MAX, report);
    }

    fn check_within(&self, at: &Place, left: usize, report: &mut Report) {
        if left == 0 && matches!(self.kind, Kind::List(_) | Kind::Table(_)) {
            report.problem(
                at,
                format!("lists and tables are nested more than {} deep", json::DEPTH_MAX),
                "make it flatter",
            );
            return;
        }
        match &self.kind {
            Kind::Unreadable | Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => {}
            Kind::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    let at = Place { line: item.line, path: format!("{}[{i}]", at.path) };
                    item.check_within(&at, left - 1, report);
                }
            }
            Kind::Table(entries) => {
                for Entry { name, node } in entries {
                    let at = Place { line: node.line, path: at.member(name) };
                    if name.starts_with(json::NAME_RESERVED) {
                        report.problem(
                            &at,
                            format!("names must not start with `{}`", json::NAME_RESERVED),
                            "rename it",
                        );
                    }
                    node.check_within(&at, left - 1, report);
                }
            }
        }
    }
}

/// Finds the line of a position in a text.
pub(super) struct Lines {
    /// The positions right after each line break.
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(i, _)| i + 1);
        // After the last line break there is no line: what ends too early is the last one's fault.
        Self { starts: breaks.filter(|start| *start < text.len()).collect() }
    }

    /// The line, from 1, that has the byte at `offset`.
    pub(super) fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) + 1
    }
}
