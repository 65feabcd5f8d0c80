//! From a [`Template`] and what is known of a saga to a value, a text, a URL or a header.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::{JsonTemplate, Part, Path, Template};
use crate::{Key, json};

/// What is escaped in a URL: all but the unreserved characters of RFC 3986 and `:`, which keys are full of.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// What paths are looked up in.
pub struct Scope<'a> {
    /// The saga's id.
    pub id: &'a str,
    /// The saga's input.
    pub input: &'a Value,
    /// The operation's key; `None` where there is no operation (claims).
    pub key: Option<&'a Key>,
    /// The key of the action that a compensation undoes.
    pub action_key: Option<&'a Key>,
    /// The serial of the operation's last answer, for its own query.
    pub serial: Option<&'a Value>,
    /// What is known of the step with an index; `None` while its action is not done.
    pub step: &'a dyn Fn(usize) -> Option<StepFacts<'a>>,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Input and facts are business data: a log that shows a scope shows whose it is, not what is in it.
        f.debug_struct("Scope").field("id", &self.id).field("key", &self.key).finish_non_exhaustive()
    }
}

/// What a done action left behind.
#[derive(Debug, Clone, Copy)]
pub struct StepFacts<'a> {
    /// Its fact.
    pub fact: &'a Value,
    /// Its serial, where it declares one.
    pub serial: Option<&'a Value>,
}

/// A `${…}` that could not be substituted. The display is a whole sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} {why}")]
pub struct Missing {
    /// The path, such as `input.sku`; of a claim that is not fit to be one: `claims[0]`.
    pub path: String,
    /// What is wrong with it.
    pub why: Why,
}

/// Why a `${…}` could not be substituted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// There is no such member.
    #[error("is missing")]
    Absent,
    /// It would make a segment of a URL that is empty, `.` or `..`, and so call another resource than the one meant.
    #[error("makes a URL segment that is empty, `.` or `..`")]
    Segment,
    /// A header cannot carry control characters.
    #[error("has control characters, which a header cannot carry")]
    Header,
    /// A claim has 1 to [`CLAIM_BYTES_MAX`](crate::definition::CLAIM_BYTES_MAX) bytes without control characters.
    #[error("does not name a resource: a claim has 1 to 512 bytes and no control characters")]
    Claim,
    /// It makes a word of a Redis command, or a key, that cannot be.
    #[error("{0}")]
    Redis(&'static str),
}

impl Missing {
    fn absent(path: &Path) -> Self {
        Self { path: path.to_string(), why: Why::Absent }
    }
}

/// What a path led to.
enum Found<'a> {
    Value(&'a Value),
    Text(Cow<'a, str>),
}

impl Found<'_> {
    fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Text(text) => Value::String(text.into_owned()),
        }
    }
}

impl<'a> Found<'a> {
    /// The text it has in the midst of other text: strings as they are, anything else as JSON.
    fn into_text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            Self::Value(Value::String(text)) => Cow::Borrowed(text),
            Self::Value(value) => Cow::Owned(json::canonical(value)),
        }
    }
}

impl Template {
    /// Renders it where JSON is wanted: one whole `${path}` keeps its JSON type, anything else becomes a string.
    ///
    /// # Errors
    /// [`Missing`] names the first path that leads nowhere.
    pub fn render_value(&self, scope: &Scope<'_>) -> Result<Value, Missing> {
        match self.parts.as_slice() {
            [Part::Path(path)] => Ok(scope.find(path)?.into_value()),
            [] | [Part::Text(_)] | [_, _, ..] => Ok(Value::String(self.render_text(scope)?)),
        }
    }

    /// Renders it as a text: strings as they are, numbers, booleans, null, arrays and objects as JSON.
    ///
    /// # Errors
    /// [`Missing`] names the first path that leads nowhere.
    pub fn render_text(&self, scope: &Scope<'_>) -> Result<String, Missing> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Path(path) => out.push_str(&scope.find(path)?.into_text()),
            }
        }
        Ok(out)
    }

    /// Renders it as the path of a URL: text as it is, each value percent-encoded but for unreserved characters and `:`.
    ///
    /// # Errors
    /// [`Missing`] names the first path that leads nowhere, or whose value would make the segment it stands in empty, `.`
    /// or `..`.
    pub fn render_url(&self, scope: &Scope<'_>) -> Result<String, Missing> {
        let mut out = String::new();
        let mut segment = Segment::default();
        for part in &self.parts {
            match part {
                Part::Text(text) => {
                    for (i, c) in text.char_indices() {
                        if c == '/' || c == '?' {
                            segment.end(&out, &text[..i])?;
                            segment.start = out.len() + i + 1;
                            segment.in_query |= c == '?';
                        }
                    }
                    out.push_str(text);
                }
                Part::Path(path) => {
                    let text = scope.find(path)?.into_text();
                    out.extend(utf8_percent_encode(&text, SEGMENT));
                    segment.value = Some(path);
                }
            }
        }
        segment.end(&out, "")?;
        Ok(out)
    }

    /// Renders it as the value of a header.
    ///
    /// # Errors
    /// [`Missing`] names the first path that leads nowhere, or whose value has control characters.
    pub fn render_header(&self, scope: &Scope<'_>) -> Result<String, Missing> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Path(path) => {
                    let text = scope.find(path)?.into_text();
                    if text.contains(char::is_control) {
                        return Err(Missing { path: path.to_string(), why: Why::Header });
                    }
                    out.push_str(&text);
                }
            }
        }
        Ok(out)
    }
}

/// The segment of a URL that is being written.
#[derive(Default)]
struct Segment<'a> {
    /// Where it starts in what has been written.
    start: usize,
    /// The last value in it.
    value: Option<&'a Path>,
    /// Whether it is in the query string, where anything goes.
    in_query: bool,
}

impl<'a> Segment<'a> {
    /// Checks the segment that ends after `tail`, which has not been written yet, and forgets its values.
    fn end(&mut self, written: &str, tail: &str) -> Result<(), Missing> {
        let Some(path) = self.value.take().filter(|_| !self.in_query) else { return Ok(()) };
        // A segment with a value in it has been written from its start up to that value.
        let head = &written[self.start..];
        // Within one text the tail also has the segments before; with a value the segment started before the text.
        if matches!((head, tail), ("" | "." | "..", "") | ("" | ".", ".") | ("", "..")) {
            return Err(Missing { path: path.to_string(), why: Why::Segment });
        }
        Ok(())
    }
}

impl JsonTemplate {
    /// Renders the tree.
    ///
    /// # Errors
    /// [`Missing`] names the first path that leads nowhere.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Value, Missing> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Text(template) => template.render_value(scope),
            Self::Array(items) => {
                Ok(Value::Array(items.iter().map(|item| item.render(scope)).collect::<Result<_, _>>()?))
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (name, member) in members {
                    object.insert(name.clone(), member.render(scope)?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

impl<'a> Scope<'a> {
    fn find<'s>(&'s self, path: &Path) -> Result<Found<'s>, Missing>
    where
        'a: 's,
    {
        let found = match path {
            Path::Id => Some(Found::Text(self.id.into())),
            Path::Input(at) => descend(self.input, at).map(Found::Value),
            Path::Key => self.key.map(|key| Found::Text(key.as_str().into())),
            Path::KeyHash => self.key.map(|key| Found::Text(key.hash().into())),
            Path::ActionKey => self.action_key.map(|key| Found::Text(key.as_str().into())),
            Path::Serial => self.serial.map(Found::Value),
            Path::StepSerial { step, .. } => {
                (self.step)(*step).and_then(|facts| facts.serial).map(Found::Value)
            }
            Path::StepFact { step, at, .. } => {
                (self.step)(*step).and_then(|facts| descend(facts.fact, at)).map(Found::Value)
            }
        };
        found.ok_or_else(|| Missing::absent(path))
    }
}

/// The member that names lead to; in an array a name is an index. `None` if there is none.
pub(crate) fn descend<'a>(value: &'a Value, at: &[String]) -> Option<&'a Value> {
    at.iter().try_fold(value, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => array_index(name).and_then(|i| items.get(i)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// Reads an index as JSON pointers write it: digits without leading zeros.
fn array_index(name: &str) -> Option<usize> {
    let plain = name == "0" || (name.starts_with(|c: char| c.is_ascii_digit() && c != '0'));
    if plain && name.bytes().all(|b| b.is_ascii_digit()) { name.parse().ok() } else { None }
}
