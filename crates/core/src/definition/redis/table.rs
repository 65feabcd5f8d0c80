//! The commands that may be part of an operation: how many words they take, what these are, and where the keys are among them.

use std::sync::LazyLock;

/// The commands, as a statement of Lua that makes a table of them, a line each: the type of what a key holds, then the words after the name; `+n`: the last n of them
/// may repeat. The functions in Redis are loaded with these very lines, so that a definition is checked by the rules it will run by.
///
/// What is not here cannot be checked before the first write, or cannot be undone by another of them.
pub const COMMANDS_TABLE: &str = include_str!("commands.table");

/// The most commands of one call: Redis does nothing else while they run.
pub const COMMANDS_MAX: usize = 100;

/// The most words of all commands of one call, their names included.
pub const WORDS_MAX: usize = 1_000;

/// The most bytes of all words of one call.
pub const BYTES_MAX: usize = 1024 * 1024;

/// A command that may be part of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisCommand {
    /// Its name, upper case.
    pub name: &'static str,
    shape: Vec<Shape>,
    repeats: usize,
    line: &'static str,
}

/// What stands at a place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Word(Word),
    SetOptions,
    ZaddOptions,
}

/// What a word of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The name of a key.
    Key,
    /// Any text.
    Any,
    /// A whole number of 64 bits.
    Integer,
    /// A number, without an exponent.
    Decimal,
    /// So many seconds or milliseconds, at least 1.
    Time,
    /// A word of the command itself, such as `NX`.
    Option,
}

static COMMANDS: LazyLock<Vec<RedisCommand>> =
    LazyLock::new(|| COMMANDS_TABLE.lines().filter_map(parse_line).collect());

fn parse_line(line: &'static str) -> Option<RedisCommand> {
    let (name, line) = line.trim().trim_end_matches(',').split_once(" = ")?;
    let line = line.trim_matches('\'').split_once(' ')?.1;
    let mut command = RedisCommand { name, shape: Vec::new(), repeats: 0, line };
    for word in line.split(' ') {
        match word {
            "key" => command.shape.push(Shape::Word(Word::Key)),
            "any" => command.shape.push(Shape::Word(Word::Any)),
            "integer" => command.shape.push(Shape::Word(Word::Integer)),
            "decimal" => command.shape.push(Shape::Word(Word::Decimal)),
            "seconds" => command.shape.push(Shape::Word(Word::Time)),
            "set" => command.shape.push(Shape::SetOptions),
            "zadd" => command.shape.push(Shape::ZaddOptions),
            repeats => command.repeats = repeats.strip_prefix('+')?.parse().ok()?,
        }
    }
    Some(command)
}

/// The command of this name, in upper or lower case.
#[must_use]
pub fn command(name: &str) -> Option<&'static RedisCommand> {
    COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name))
}

/// The names of all commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

impl RedisCommand {
    /// What each word after the name is. Of a word whose text is not known yet, `None` stands for it: it is no option then.
    ///
    /// # Errors
    /// In words, what is wrong: too few, too many, options that there are not.
    pub fn words(&self, arguments: &[Option<&str>]) -> Result<Vec<Word>, String> {
        let mut words = Vec::with_capacity(arguments.len());
        for shape in &self.shape {
            match shape {
                Shape::Word(word) => words.push(*word),
                Shape::SetOptions if words.len() <= arguments.len() => {
                    words.extend(set_options(&arguments[words.len()..])?);
                }
                Shape::ZaddOptions if words.len() <= arguments.len() => {
                    let is_option = |word: &&Option<&str>| {
                        word.is_some_and(|word| {
                            ["NX", "XX", "GT", "LT", "CH"].contains(&upper(word).as_str())
                        })
                    };
                    let options = arguments[words.len()..].iter().take_while(is_option).count();
                    words.extend(std::iter::repeat_n(Word::Option, options));
                }
                // Too few words, which is found out below.
                Shape::SetOptions | Shape::ZaddOptions => {}
            }
        }
        let group: Vec<Word> = words[words.len() - self.repeats.min(words.len())..].to_vec();
        while words.len() < arguments.len() && !group.is_empty() {
            words.extend(&group);
        }
        if words.len() == arguments.len() {
            return Ok(words);
        }
        Err(format!("{} has {} words after its name; it takes: {}", self.name, arguments.len(), self.line))
    }
}

fn set_options(arguments: &[Option<&str>]) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = rest.next() {
        let option = upper(word.unwrap_or_default());
        words.push(Word::Option);
        let kind = match option.as_str() {
            "EX" | "PX" | "EXAT" | "PXAT" if rest.next().is_some() => {
                words.push(Word::Time);
                "time"
            }
            "KEEPTTL" => "time",
            "NX" | "XX" => "condition",
            "GET" => "get",
            _ => "",
        };
        if kind.is_empty() || seen.contains(&kind) {
            let option: String = option.chars().take(64).collect();
            return Err(format!(
                "SET has {option:?} behind its value, where NX or XX, GET, and one of EX, PX, EXAT, PXAT with a time or KEEPTTL may be"
            ));
        }
        seen.push(kind);
    }
    Ok(words)
}

fn upper(word: &str) -> String {
    word.to_ascii_uppercase()
}

impl Word {
    /// Whether a text can stand for it.
    #[must_use]
    pub fn fits(self, text: &str) -> bool {
        match self {
            Self::Key => !text.is_empty(),
            Self::Any | Self::Option => true,
            Self::Integer => integer(text).is_some(),
            Self::Decimal => {
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let unsigned = text.strip_prefix('-').unwrap_or(text);
                let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
                text.len() <= 40 && digits(whole) && digits(fraction)
            }
            Self::Time => integer(text).is_some_and(|number| number > 0),
        }
    }

    /// What it is, in words.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Key => "a key",
            Self::Any => "a text",
            Self::Integer => "a whole number",
            Self::Decimal => "a number without exponent",
            Self::Time => "a time of at least 1",
            Self::Option => "an option",
        }
    }
}

/// A whole number as Redis takes it: 64 bits, without a plus, leading zeros or white space. The least one is none, since its
/// negative would not be one.
fn integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| *number != i64::MIN && number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(text: &str) -> Result<String, String> {
        let mut words = text.split(' ').map(|word| (word != "?").then_some(word));
        let name = words.next().flatten().unwrap();
        let arguments: Vec<_> = words.collect();
        let letter = |word: &Word| match word {
            Word::Key => 'k',
            Word::Any => 'a',
            Word::Integer => 'i',
            Word::Decimal => 'd',
            Word::Time => 't',
            Word::Option => 'o',
        };
        command(name).unwrap().words(&arguments).map(|words| words.iter().map(letter).collect())
    }

    #[test]
    fn every_line_is_read() {
        assert_eq!(names().count(), COMMANDS_TABLE.lines().filter(|line| line.starts_with("  ")).count());
        assert_eq!(command("EVAL"), None);
        assert!(command("hset").is_some());
    }

    #[test]
    fn words_are_what_the_table_says() {
        for (text, words) in [
            ("HSET k f v", "kaa"),
            ("HSET k f v ? ?", "kaaaa"),
            ("HINCRBY ? ? ?", "kai"),
            ("DEL a ? c", "kkk"),
            ("SET k v", "ka"),
            ("SET k v nx EX ?", "kaoot"),
            ("SET k v KEEPTTL GET XX", "kaooo"),
            ("ZADD k 1 m", "kda"),
            ("ZADD k nx CH ? m 2 n", "koodada"),
            ("EXPIRE k 5", "kt"),
            ("PERSIST k", "k"),
        ] {
            assert_eq!(takes(text).as_deref(), Ok(words), "{text}");
        }
        for text in [
            "HSET k f",
            "HSET k f v g",
            "DEL",
            "SET k",
            "SET k v ?",
            "SET k v EX",
            "SET k v NX XX",
            "ZADD k NX",
            "ZADD",
            "PERSIST k x",
        ] {
            assert!(takes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_those_that_redis_takes() {
        for text in ["5", "-5", "0", "9223372036854775807"] {
            assert!(Word::Integer.fits(text), "{text}");
        }
        for text in [
            "",
            "-",
            "--5",
            "+5",
            "05",
            "-0",
            "1.5",
            "1e3",
            " 1",
            "9223372036854775808",
            "-9223372036854775808",
        ] {
            assert!(!Word::Integer.fits(text), "{text:?}");
        }
        assert!(
            Word::Decimal.fits("-1.5")
                && Word::Decimal.fits("7")
                && !Word::Decimal.fits("1e3")
                && !Word::Decimal.fits(".")
        );
        assert!(Word::Time.fits("1") && !Word::Time.fits("0"));
    }
}
