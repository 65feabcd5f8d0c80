//! From a text to a [`Template`].

use serde_json::Value;

use super::{JsonTemplate, Part, Path, Template};

/// Why a text is no template. The display is a reason; [`BadTemplate::remedy`] says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// A `$` that neither starts a `${…}` nor is doubled.
    #[error("a `$` here starts no `${{…}}`")]
    LoneDollar,
    /// A `${` without its `}`.
    #[error("`${{{0}` has no closing `}}`")]
    Unterminated(String),
    /// A path with an empty segment, or with a character that no path has.
    #[error("`${{{0}}}` is not a path: names joined by dots, without spaces, braces or dollars")]
    NotAPath(String),
    /// The path starts with a word that names nothing.
    #[error("`${{{0}}}` names nothing that exists")]
    UnknownRoot(String),
    /// A path goes into something that has no members.
    #[error("`${{{0}}}` goes into `{1}`, which is a text")]
    TooLong(String, &'static str),
    /// `steps.NAME` without `.serial` or `.fact`.
    #[error("`${{{0}}}` does not say what of the step is meant")]
    StepPart(String),
    /// `steps.NAME` of a step that the definition does not have.
    #[error("`${{{path}}}` names a step `{name}` that does not exist")]
    UnknownStep {
        /// The whole path.
        path: String,
        /// The step's name.
        name: String,
    },
}

impl BadTemplate {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::LoneDollar => "write `$$` for a dollar, or `${path}` to substitute".into(),
            Self::Unterminated(_) => "close it with `}`, or write `$$` for a dollar".into(),
            Self::NotAPath(_) => {
                "write a path such as `${input.customer.name}`; there are no expressions".into()
            }
            Self::UnknownRoot(_) => "a path is `id`, `input.…`, `key`, `key_hash`, `action_key`, `serial`, \
                                     `steps.NAME.serial` or `steps.NAME.fact.…`"
                .into(),
            Self::TooLong(_, root) => format!("write `${{{root}}}`"),
            Self::StepPart(_) => "write `steps.NAME.serial` or `steps.NAME.fact.…`".into(),
            Self::UnknownStep { .. } => "name a step of this definition".into(),
        }
    }
}

impl Template {
    /// Reads a text. `step_index` gives the index of the step with a name.
    ///
    /// # Errors
    /// The first fault of the text, from its beginning.
    pub fn parse(text: &str, step_index: &dyn Fn(&str) -> Option<usize>) -> Result<Self, BadTemplate> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            plain.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                plain.push('$');
                rest = after;
            } else if let Some(after) = after.strip_prefix('{') {
                let (path, after) =
                    after.split_once('}').ok_or_else(|| BadTemplate::Unterminated(shorten(after)))?;
                let path = parse_path(path, step_index)?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Path(path));
                rest = after;
            } else {
                return Err(BadTemplate::LoneDollar);
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// Its text, if nothing is substituted in it.
    #[must_use]
    pub fn as_plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            [Part::Path(_)] | [_, _, ..] => None,
        }
    }
}

impl JsonTemplate {
    /// Reads a tree whose strings may have `${…}` in them. `step_index` gives the index of the step with a name.
    ///
    /// # Errors
    /// The first fault of the first string that has one.
    pub fn parse(value: &Value, step_index: &dyn Fn(&str) -> Option<usize>) -> Result<Self, BadTemplate> {
        Ok(match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Value(value.clone()),
            Value::String(text) => Self::text(Template::parse(text, step_index)?),
            Value::Array(items) => {
                Self::array(items.iter().map(|item| Self::parse(item, step_index)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => Self::object(
                members
                    .iter()
                    .map(|(name, member)| Ok((name.clone(), Self::parse(member, step_index)?)))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    /// A string.
    pub(crate) fn text(template: Template) -> Self {
        match template.as_plain() {
            Some(plain) => Self::Value(Value::String(plain.to_owned())),
            None => Self::Text(template),
        }
    }

    /// An array; a plain one becomes one value, so that rendering only clones it.
    pub(crate) fn array(items: Vec<Self>) -> Self {
        if items.iter().all(|item| matches!(item, Self::Value(_))) {
            Self::Value(Value::Array(items.into_iter().filter_map(Self::into_value).collect()))
        } else {
            Self::Array(items)
        }
    }

    /// An object, sorted here; a plain one becomes one value.
    pub(crate) fn object(mut members: Vec<(String, Self)>) -> Self {
        if members.iter().all(|(_, member)| matches!(member, Self::Value(_))) {
            let members = members.into_iter().filter_map(|(name, member)| Some((name, member.into_value()?)));
            return Self::Value(Value::Object(members.collect()));
        }
        members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self::Object(members)
    }

    fn into_value(self) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Text(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }
}

fn parse_path(text: &str, step_index: &dyn Fn(&str) -> Option<usize>) -> Result<Path, BadTemplate> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '{' | '$');
    let segments: Vec<&str> = text.split('.').collect();
    if segments.iter().any(|segment| segment.is_empty() || segment.contains(odd)) {
        return Err(BadTemplate::NotAPath(shorten(text)));
    }
    let owned = |segments: &[&str]| segments.iter().map(|&segment| segment.to_owned()).collect();
    let step = |name: &str| {
        step_index(name).ok_or_else(|| BadTemplate::UnknownStep { path: shorten(text), name: shorten(name) })
    };
    match segments.as_slice() {
        ["id"] => Ok(Path::Id),
        ["key"] => Ok(Path::Key),
        ["key_hash"] => Ok(Path::KeyHash),
        ["action_key"] => Ok(Path::ActionKey),
        ["serial"] => Ok(Path::Serial),
        ["id", ..] => Err(BadTemplate::TooLong(shorten(text), "id")),
        ["key", ..] => Err(BadTemplate::TooLong(shorten(text), "key")),
        ["key_hash", ..] => Err(BadTemplate::TooLong(shorten(text), "key_hash")),
        ["action_key", ..] => Err(BadTemplate::TooLong(shorten(text), "action_key")),
        ["serial", ..] => Err(BadTemplate::TooLong(shorten(text), "serial")),
        ["input", at @ ..] => Ok(Path::Input(owned(at))),
        ["steps", name, "serial"] => Ok(Path::StepSerial { step: step(name)?, name: (*name).to_owned() }),
        ["steps", name, "fact", at @ ..] => {
            Ok(Path::StepFact { step: step(name)?, name: (*name).to_owned(), at: owned(at) })
        }
        ["steps", ..] => Err(BadTemplate::StepPart(shorten(text))),
        [] | [_, ..] => Err(BadTemplate::UnknownRoot(shorten(text))),
    }
}

/// The beginning of a text, for a message.
fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
