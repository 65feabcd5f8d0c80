//! The whitelist, read from the table that definitions are checked by and functions are loaded with.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use amends_core::definition::redis::COMMANDS_TABLE;

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Key,
    Any,
    Integer,
    Decimal,
    Seconds,
    /// The options of SET, up to the end.
    SetOptions,
    /// The options of ZADD, before its scores.
    ZaddOptions,
}

/// What the arguments of a command must be.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) shapes: Vec<Shape>,
    /// So many of the last shapes may repeat.
    pub(super) repeats: usize,
}

/// The rule of each command, by its name in capitals.
pub(super) static RULES: LazyLock<BTreeMap<&'static str, Rule>> = LazyLock::new(|| {
    COMMANDS_TABLE
        .lines()
        .filter(|line| line.starts_with("  "))
        .map(|line| read(line).expect("invariant: a line of the table is NAME = 'type shape… +n',"))
        .collect()
});

fn read(line: &'static str) -> Option<(&'static str, Rule)> {
    let (name, words) = line.trim().strip_suffix("',")?.split_once(" = '")?;
    let mut rule = Rule { shapes: Vec::new(), repeats: 0 };
    // The first word is the type that the key must have, which only the server can know.
    for word in words.split(' ').skip(1) {
        rule.shapes.push(match word {
            "key" => Shape::Key,
            "any" => Shape::Any,
            "integer" => Shape::Integer,
            "decimal" => Shape::Decimal,
            "seconds" => Shape::Seconds,
            "set" => Shape::SetOptions,
            "zadd" => Shape::ZaddOptions,
            repeats => {
                rule.repeats = repeats.strip_prefix('+')?.parse().ok()?;
                continue;
            }
        });
    }
    Some((name, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(RULES.len(), 17);
        assert_eq!(RULES["ZADD"].shapes, [Shape::Key, Shape::ZaddOptions, Shape::Decimal, Shape::Any]);
        assert_eq!((RULES["ZADD"].repeats, RULES["DEL"].repeats, RULES["PERSIST"].repeats), (2, 1, 0));
    }
}
