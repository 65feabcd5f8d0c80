//! From JSON text to the tree.
//!
//! `serde_json` reads each level as raw slices of the text, whose positions give the lines. Reading a level again for each
//! level above it costs at most [`json::DEPTH_MAX`] times the text.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;

use super::diagnostic::{Place, Report};
use super::tree::{Entry, Kind, Lines, Node};
use crate::json;

/// Reads a text. `None` if it is no JSON; then the report says where.
pub(super) fn read(text: &str, report: &mut Report) -> Option<Node> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => {
            let mut reader = Reader { text, lines: Lines::new(text), report };
            let at = Place::root(reader.line(raw));
            let kind = reader.value(raw, &at, json::DEPTH_MAX);
            Some(Node { line: at.line, kind })
        }
        Err(error) => {
            report.problem(&Place::root(error.line()), reason(&error), "correct the text");
            None
        }
    }
}

/// The error without its line and column: within a slice they count from the slice's start.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    format!("this is no JSON: {}", text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason))
}

struct Reader<'t, 'r> {
    text: &'t str,
    lines: Lines,
    report: &'r mut Report,
}

impl<'t> Reader<'t, '_> {
    /// The line of a slice of the text.
    fn line(&self, raw: &RawValue) -> usize {
        self.lines.at(raw.get().as_ptr().addr() - self.text.as_ptr().addr())
    }

    fn value(&mut self, raw: &'t RawValue, at: &Place, left: usize) -> Kind {
        let text = raw.get();
        let nested = text.starts_with(['{', '[']);
        if nested && left == 0 {
            let reason = format!("lists and tables are nested more than {} deep", json::DEPTH_MAX);
            self.report.problem(at, reason, "make it flatter");
            return Kind::Unreadable;
        }
        let kind = match text.as_bytes().first() {
            Some(b'{') => serde_json::from_str(text).map(|members| self.table(members, at, left - 1)),
            Some(b'[') => serde_json::from_str(text).map(|items| self.list(items, at, left - 1)),
            Some(b'"') => serde_json::from_str(text).map(Kind::Text),
            Some(b't' | b'f') => serde_json::from_str(text).map(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            Some(_) | None => serde_json::from_str::<Number>(text).map(Kind::Number),
        };
        // The whole text has been found to be JSON: what is left are escapes that stand for no character.
        kind.unwrap_or_else(|error| {
            self.report.problem(at, reason(&error), "correct the text");
            Kind::Unreadable
        })
    }

    fn list(&mut self, items: Vec<&'t RawValue>, at: &Place, left: usize) -> Kind {
        let item = |(i, raw): (usize, &'t RawValue)| {
            let at = Place { line: self.line(raw), path: format!("{}[{i}]", at.path) };
            Node { line: at.line, kind: self.value(raw, &at, left) }
        };
        Kind::List(items.into_iter().enumerate().map(item).collect())
    }

    fn table(&mut self, members: Members<'t>, at: &Place, left: usize) -> Kind {
        let mut names = HashSet::new();
        let mut entries = Vec::new();
        for (name, value) in members.0 {
            let line = self.line(name);
            let name: String = match serde_json::from_str(name.get()) {
                Ok(name) => name,
                Err(error) => {
                    let at = Place { line, path: at.path.clone() };
                    self.report.problem(&at, reason(&error), "correct the text");
                    continue;
                }
            };
            let at = Place { line, path: at.member(&name) };
            if !names.insert(name.clone()) {
                self.report.problem(&at, format!("`{name}` is given twice"), "keep one of the two");
                continue;
            }
            let kind = self.value(value, &at, left);
            entries.push(Entry { name, node: Node { line, kind } });
        }
        Kind::Table(entries)
    }
}

/// The members of an object in the order of the text, also where a name comes twice.
struct Members<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}
