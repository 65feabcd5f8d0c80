//! Reading one value of the tree: each misfit gets a reason and a remedy, and reading goes on.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::diagnostic::{Place, Report};
use super::duration::parse_duration;
use super::tree::{Entry, Kind, Node};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct At<'t> {
    pub(super) node: &'t Node,
    pub(super) place: Place,
}

impl<'t> At<'t> {
    pub(super) fn root(node: &'t Node) -> Self {
        Self { node, place: Place::root(node.line) }
    }

    /// How it would be written with this value: with its name, where it has one.
    fn written(&self, value: impl Display) -> String {
        match self.place.path.rsplit('.').next() {
            Some(name) if !name.is_empty() && !name.ends_with(']') => format!("{name} = {value}"),
            Some(_) | None => value.to_string(),
        }
    }

    pub(super) fn misfit(&self, wanted: &str, example: &str, report: &mut Report) {
        if matches!(self.node.kind, Kind::Unreadable) {
            return;
        }
        report.problem(
            &self.place,
            format!("expected {wanted}, found {}", self.node.what()),
            format!("write it as in `{example}`"),
        );
    }

    pub(super) fn text(&self, example: &str, report: &mut Report) -> Option<&'t str> {
        let Kind::Text(text) = &self.node.kind else {
            self.misfit("a text", &self.written(format_args!("\"{example}\"")), report);
            return None;
        };
        Some(text)
    }

    pub(super) fn boolean(&self, report: &mut Report) -> Option<bool> {
        let Kind::Bool(value) = self.node.kind else {
            self.misfit("true or false", &self.written(true), report);
            return None;
        };
        Some(value)
    }

    /// A whole number within a range.
    pub(super) fn whole(&self, range: RangeInclusive<u64>, report: &mut Report) -> Option<u64> {
        let Kind::Number(number) = &self.node.kind else {
            self.misfit("a whole number", &self.written(range.start().max(&1)), report);
            return None;
        };
        let found = number.as_u64().filter(|number| range.contains(number));
        if found.is_none() {
            report.problem(
                &self.place,
                format!("{number} is not a whole number from {} to {}", range.start(), range.end()),
                "choose one in that range",
            );
        }
        found
    }

    /// A number within a range.
    pub(super) fn number(&self, range: RangeInclusive<f64>, report: &mut Report) -> Option<f64> {
        let Kind::Number(number) = &self.node.kind else {
            self.misfit("a number", &self.written(range.start()), report);
            return None;
        };
        let found = number.as_f64().filter(|number| range.contains(number));
        if found.is_none() {
            report.problem(
                &self.place,
                format!("{number} is not a number from {} to {}", range.start(), range.end()),
                "choose one in that range",
            );
        }
        found
    }

    /// A duration, in milliseconds, of at most `max_ms`.
    pub(super) fn duration(&self, max_ms: u64, report: &mut Report) -> Option<u64> {
        let Kind::Text(text) = &self.node.kind else {
            let number =
                if let Kind::Number(number) = &self.node.kind { number.to_string() } else { "3".into() };
            self.misfit(
                "a duration, a text with its unit",
                &self.written(format_args!("\"{number}s\"")),
                report,
            );
            return None;
        };
        match parse_duration(text) {
            Ok(ms) if ms <= max_ms => Some(ms),
            Ok(_) => {
                let max = super::show_duration(max_ms);
                report.problem(
                    &self.place,
                    format!("{text} is longer than the {max} that this may take"),
                    format!("write at most \"{max}\""),
                );
                None
            }
            Err(error) => {
                report.problem(
                    &self.place,
                    error.to_string(),
                    "write a duration such as \"500ms\", \"3s\", \"15m\", \"24h\" or \"5d\"",
                );
                None
            }
        }
    }

    /// The items of a list. A lone text in its place is reported with the list that was probably meant.
    pub(super) fn list(&self, of: &str, example: &str, report: &mut Report) -> Option<Vec<At<'t>>> {
        let Kind::List(items) = &self.node.kind else {
            let meant = match &self.node.kind {
                Kind::Text(text) if text.len() <= 64 => format!("[{text:?}]"),
                _ => example.to_owned(),
            };
            self.misfit(&format!("a list of {of}"), &self.written(meant), report);
            return None;
        };
        Some(self.items(items))
    }

    /// The items of a list, or the value itself where one stands for a list of one.
    pub(super) fn one_or_many(&self) -> Vec<At<'t>> {
        if let Kind::List(items) = &self.node.kind { self.items(items) } else { vec![self.clone()] }
    }

    fn items(&self, items: &'t [Node]) -> Vec<At<'t>> {
        let item = |(i, node): (usize, &'t Node)| At {
            node,
            place: Place { line: node.line, path: format!("{}[{i}]", self.place.path) },
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The members of a table, by names that the file chooses.
    pub(super) fn members(
        &self,
        of: &str,
        example: &str,
        report: &mut Report,
    ) -> Option<Vec<(&'t str, At<'t>)>> {
        let Kind::Table(entries) = &self.node.kind else {
            self.misfit(&format!("a table of {of}"), example, report);
            return None;
        };
        Some(entries.iter().map(|entry| (entry.name.as_str(), member(&self.place, entry))).collect())
    }

    /// The members of a table, by names that are fixed.
    pub(super) fn fields(&self, example: &str, report: &mut Report) -> Option<Fields<'t>> {
        let Kind::Table(entries) = &self.node.kind else {
            self.misfit("a table", example, report);
            return None;
        };
        Some(Fields { place: self.place.clone(), entries, known: Vec::new() })
    }
}

fn member<'t>(place: &Place, entry: &'t Entry) -> At<'t> {
    At { node: &entry.node, place: Place { line: entry.node.line, path: place.member(&entry.name) } }
}

/// The members of a table whose names are fixed. Whatever has not been asked for by the end is unknown.
#[derive(Debug)]
pub(super) struct Fields<'t> {
    pub(super) place: Place,
    entries: &'t [Entry],
    known: Vec<&'static str>,
}

impl<'t> Fields<'t> {
    pub(super) fn get(&mut self, name: &'static str) -> Option<At<'t>> {
        self.known.push(name);
        self.entries.iter().find(|entry| entry.name == name).map(|entry| member(&self.place, entry))
    }

    /// A member that must be there.
    pub(super) fn require(
        &mut self,
        name: &'static str,
        example: &str,
        report: &mut Report,
    ) -> Option<At<'t>> {
        let found = self.get(name);
        if found.is_none() {
            report.problem(&self.place, format!("`{name}` is missing"), format!("add it, as in `{example}`"));
        }
        found
    }

    /// Reports the members that nobody asked for.
    pub(super) fn finish(mut self, report: &mut Report) {
        self.known.sort_unstable();
        self.known.dedup();
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&entry.name.as_str())) {
            let at = member(&self.place, entry);
            let likely =
                if report.is_full() { None } else { nearest(&entry.name, self.known.iter().copied()) };
            let remedy = match likely {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("remove it; there may be {}", self.known.join(", ")),
            };
            let shown: String = entry.name.chars().take(64).collect();
            report.problem(&at.place, format!("there is no field `{shown}` here"), remedy);
        }
    }
}

/// The name that was probably meant.
pub(super) fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Long texts are no typing errors, and comparing them is slow.
    const WRITTEN_MAX: usize = 64;
    // From here on names share most of their letters; below it suggestions are noise.
    const LIKENESS_MIN: f64 = 0.75;
    if written.len() > WRITTEN_MAX {
        return None;
    }
    let written = written.to_lowercase().replace('-', "_");
    names
        .map(|name| {
            (strsim::normalized_damerau_levenshtein(&written, name).max(prefix(&written, name)), name)
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// How much a word counts that is the beginning of the other: `compensate` for `compensation`, `max` for `max_interval`.
fn prefix(a: &str, b: &str) -> f64 {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let most = common * 4 >= a.len().max(b.len()) * 3;
    if common >= 3 && (most || common == a.len() || common == b.len()) { 0.8 } else { 0.0 }
}
