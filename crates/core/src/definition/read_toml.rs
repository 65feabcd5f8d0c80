//! From TOML text to the tree.

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Place, Report};
use super::tree::{Entry, Kind, Lines, Node};

/// Reads a text. `None` if it is no TOML; then the report says where.
pub(super) fn read(text: &str, report: &mut Report) -> Option<Node> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let mut reader = Reader { lines, report };
        return Some(Node { line: 1, kind: reader.table(table.get_ref(), &Place::root(1)) });
    }
    for error in errors {
        let line = lines.at(error.span().map_or(0, |span| span.start));
        report.problem(
            &Place::root(line),
            format!("this is no TOML: {}", error.message()),
            "correct the text",
        );
    }
    None
}

struct Reader<'r> {
    lines: Lines,
    report: &'r mut Report,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, at: &Place) -> Kind {
        let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name_text: &std::borrow::Cow<'_, str> = name.get_ref();
            let line = self.lines.at(name.span().start);
            let kind = self.value(value.get_ref(), &Place { line, path: at.member(name_text) });
            Entry { name: name_text.to_string(), node: Node { line, kind } }
        };
        Kind::Table(table.iter().map(entry).collect())
    }

    fn value(&mut self, value: &DeValue<'_>, at: &Place) -> Kind {
        match value {
            DeValue::String(text) => Kind::Text(text.to_string()),
            DeValue::Boolean(value) => Kind::Bool(*value),
            DeValue::Integer(number) if number.radix() == 10 => self.number(number.as_str(), at),
            DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Kind::Number(number.into()),
                Err(_) => {
                    self.report.problem(
                        at,
                        "this number is too large for its notation",
                        "write it in decimal digits",
                    );
                    Kind::Unreadable
                }
            },
            DeValue::Float(number) => self.number(number.as_str(), at),
            DeValue::Datetime(_) => {
                self.report.problem(
                    at,
                    "dates and times are not used here, and JSON has none",
                    "write it as a text, in quotes",
                );
                Kind::Unreadable
            }
            DeValue::Array(items) => {
                let item = |(i, item): (usize, &Spanned<DeValue<'_>>)| {
                    let line = self.lines.at(item.span().start);
                    let at = Place { line, path: format!("{}[{i}]", at.path) };
                    Node { line, kind: self.value(item.get_ref(), &at) }
                };
                Kind::List(items.iter().enumerate().map(item).collect())
            }
            DeValue::Table(table) => self.table(table, at),
        }
    }

    /// A decimal number, by its text: TOML and JSON of equal numbers give equal trees, and no digit is lost.
    fn number(&mut self, text: &str, at: &Place) -> Kind {
        match serde_json::from_str::<Number>(text.strip_prefix('+').unwrap_or(text)) {
            Ok(number) => Kind::Number(number),
            Err(_) => {
                self.report.problem(at, format!("`{text}` is no number in JSON"), "write a finite number");
                Kind::Unreadable
            }
        }
    }
}
