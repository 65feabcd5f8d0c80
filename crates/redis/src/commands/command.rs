//! One command: a vector of words that the whitelist allows.

use super::table::{RULES, Shape};
use super::text;

/// One command. Whoever has one has a well-formed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    words: Vec<Vec<u8>>,
    /// Where in `words` its keys are.
    keys: Vec<usize>,
}

/// Why words are no command, or a text no words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", of(.command))]
pub struct Malformed {
    /// Which command; empty if it is about all of them.
    pub command: String,
    /// Which argument is meant and what it must be.
    pub reason: String,
}

fn of(command: &str) -> String {
    if command.is_empty() { String::new() } else { format!("{command}: ") }
}

impl Malformed {
    pub(super) fn of_all(reason: impl Into<String>) -> Self {
        Self { command: String::new(), reason: reason.into() }
    }
}

impl Command {
    /// Checks words: the name, then its arguments. They are bytes; only their shape counts, not what the keys hold.
    ///
    /// # Errors
    /// If it is none of the commands allowed, or an argument has not the shape it needs.
    pub fn new(words: Vec<Vec<u8>>) -> Result<Self, Malformed> {
        let keys = check(&words)?;
        Ok(Self { words, keys })
    }

    /// Reads a text such as `HINCRBY balance:1001 amount -100`, quoted as `redis-cli` quotes: `"…"` with the escapes `\n \r \t \b \a
    /// \xHH \" \\`, and `'…'` with `\'` only.
    ///
    /// # Errors
    /// If the quotes do not fit, or as [`Command::new`].
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        Self::new(text::split(text)?)
    }

    /// Its words.
    #[must_use]
    pub fn words(&self) -> &[Vec<u8>] {
        &self.words
    }

    /// Its keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|at| self.words[*at].as_slice())
    }
}

impl std::fmt::Display for Command {
    /// As [`Command::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text::join(&self.words))
    }
}

/// Gives where its keys are.
fn check(words: &[Vec<u8>]) -> Result<Vec<usize>, Malformed> {
    let name =
        words.first().map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).unwrap_or_default();
    let Some(rule) = RULES.get(name.as_str()) else {
        let allowed: Vec<_> = RULES.keys().copied().collect();
        let shown: String = name.chars().take(40).collect();
        return Err(Malformed::of_all(format!(
            "{shown:?} is not one of the commands allowed here; they are {}",
            allowed.join(", ")
        )));
    };
    let wrong = |reason: String| Malformed { command: name.clone(), reason };
    let mut keys = Vec::new();
    let mut at = 1;
    let mut take = |shape: Shape, at: usize| -> Result<usize, Malformed> {
        match shape {
            Shape::SetOptions if set_options_fit(&words[at.min(words.len())..]) => return Ok(words.len()),
            Shape::ZaddOptions => {
                if let Some(options) = zadd_options(&words[at.min(words.len())..]) {
                    return Ok(at + options);
                }
            }
            Shape::SetOptions
            | Shape::Key
            | Shape::Any
            | Shape::Integer
            | Shape::Decimal
            | Shape::Seconds => {
                let word = match (words.get(at), shape) {
                    (_, Shape::SetOptions) => None,
                    (None, _) => {
                        return Err(wrong(format!("argument {at} is missing; it must be {}", wanted(shape))));
                    }
                    (word, _) => word,
                };
                if word.is_some_and(|word| is(shape, word)) {
                    if shape == Shape::Key {
                        keys.push(at);
                    }
                    return Ok(at + 1);
                }
            }
        }
        let word: String = words.get(at).map(|w| w.escape_ascii().to_string()).unwrap_or_default();
        let word: String = word.chars().take(40).collect();
        Err(wrong(format!("argument {at} is \"{word}\"; it must be {}", wanted(shape))))
    };
    for shape in &rule.shapes {
        at = take(*shape, at)?;
    }
    while at < words.len() && rule.repeats > 0 {
        for shape in &rule.shapes[rule.shapes.len() - rule.repeats..] {
            at = take(*shape, at)?;
        }
    }
    if at < words.len() {
        let given = words.len() - 1;
        return Err(wrong(format!("it has {given} arguments and takes {}: leave out the last", at - 1)));
    }
    Ok(keys)
}

fn wanted(shape: Shape) -> &'static str {
    match shape {
        Shape::Key => "a key, which is not empty",
        Shape::Any => "a value",
        Shape::Integer => "an integer of 64 bits, written without leading zeros, above -2^63",
        Shape::Decimal => "a number such as 7 or -1.5, of at most 40 characters, without exponent",
        Shape::Seconds => "a number of seconds above 0, of at most 10 digits",
        Shape::SetOptions => {
            "one of EX seconds, PX milliseconds, EXAT second, PXAT millisecond and KEEPTTL, one of NX and XX, and GET"
        }
        Shape::ZaddOptions => "an option of ZADD (NX, XX, GT, LT, CH) that fits the others",
    }
}

fn is(shape: Shape, word: &[u8]) -> bool {
    match shape {
        Shape::Key => !word.is_empty(),
        Shape::Any => true,
        Shape::Integer => integer(word).is_some_and(|number| number != i64::MIN),
        Shape::Decimal => word.len() <= 40 && is_decimal(word),
        Shape::Seconds => is_positive(word, 10),
        Shape::SetOptions | Shape::ZaddOptions => false,
    }
}

/// An integer as Redis reads one: no sign but `-`, no leading zeros, no spaces.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn is_decimal(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    parts.all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

fn is_positive(word: &[u8], digits_max: usize) -> bool {
    word.len() <= digits_max
        && word.iter().all(u8::is_ascii_digit)
        && word.first().is_some_and(|byte| *byte != b'0')
}

fn set_options_fit(words: &[Vec<u8>]) -> bool {
    let (mut time, mut condition, mut get) = (false, false, false);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let word = word.to_ascii_uppercase();
        let seen = match word.as_slice() {
            b"EX" | b"EXAT" | b"PX" | b"PXAT" => {
                let digits_max = if word.starts_with(b"EX") { 10 } else { 13 };
                if !rest.next().is_some_and(|value| is_positive(value, digits_max)) {
                    return false;
                }
                &mut time
            }
            b"KEEPTTL" => &mut time,
            b"NX" | b"XX" => &mut condition,
            b"GET" => &mut get,
            _ => return false,
        };
        if std::mem::replace(seen, true) {
            return false;
        }
    }
    true
}

/// How many options there are before the first score, if they fit each other.
fn zadd_options(words: &[Vec<u8>]) -> Option<usize> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    for word in words {
        let word = word.to_ascii_uppercase();
        if !matches!(word.as_slice(), b"NX" | b"XX" | b"GT" | b"LT" | b"CH") {
            break;
        }
        if found.contains(&word) {
            return None;
        }
        found.push(word);
    }
    let has = |name: &[u8]| found.iter().any(|word| word == name);
    let fit = !(has(b"NX") && (has(b"XX") || has(b"GT") || has(b"LT")) || has(b"GT") && has(b"LT"));
    fit.then_some(found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_command_the_argument_and_the_remedy() {
        for (text, words) in [
            ("FLUSHALL", &["\"FLUSHALL\" is not one of the commands allowed", "DECRBY, DEL"][..]),
            ("hincrby k f 1.5", &["HINCRBY: argument 3 is \"1.5\"; it must be an integer"]),
            ("HINCRBY k f", &["HINCRBY: argument 3 is missing; it must be an integer"]),
            ("HSET k f v g", &["HSET: argument 5 is missing; it must be a value"]),
            ("SET k v EX 0", &["SET: argument 3 is \"EX\"; it must be one of EX seconds"]),
            ("ZADD k GT LT 1 m", &["ZADD: argument 2 is \"GT\"; it must be an option of ZADD"]),
            ("PERSIST k l", &["PERSIST: it has 2 arguments and takes 1"]),
            ("DEL \"\"", &["DEL: argument 1 is \"\"; it must be a key"]),
        ] {
            let said = Command::parse(text.as_bytes()).expect_err(text).to_string();
            for word in words {
                assert!(said.contains(word), "{text}: {said}");
            }
        }
    }
}
