//! `redis` and `guard` of an operation, and what can be said of them before any saga has run.

use super::call::{FENCE_MARGIN_MS, RedisCommands, RedisGuard, RedisTest, hash_tag};
use super::table::{COMMANDS_MAX, WORDS_MAX, Word, command, names};
use crate::definition::builder::{Builder, Owner};
use crate::definition::call::{Call, METHODS};
use crate::definition::diagnostic::{Place, Report};
use crate::definition::fields::{At, Fields, nearest};
use crate::definition::{Body, Method, Operation, Query, Step};
use crate::template::{Part, Template};

const GUARD_EXAMPLE: &str = "guard = [{ key = \"stock:{${input.sku}}\", at_least = \"1\" }]";

/// Fields of an operation over HTTP that say nothing here, and why.
const OF_HTTP: [(&str, &str); 7] = [
    ("headers", "commands have no headers"),
    ("body", "commands have no body"),
    ("form", "commands have no form"),
    (
        "serial",
        "what commands answer has no serial; their answers are in `${steps.NAME.fact.results.0}` and so on",
    ),
    ("outcome", "what the fence answers needs no rule"),
    ("query", "the fence is asked without one"),
    ("callback_timeout", "commands are done when they are answered"),
];

impl Builder<'_> {
    /// Reads the commands of an operation whose `redis` is at `at`.
    pub(in crate::definition) fn read_redis(
        &mut self,
        at: &At<'_>,
        fields: &mut Fields<'_>,
        to_default: Option<&str>,
        owner: Owner,
    ) -> Call {
        let to = self.read_to(fields, to_default);
        self.refuse_http(fields);
        self.check_participant(&to, &at.place);
        let commands = self.read_commands(at, owner);
        let guards = match fields.get("guard") {
            Some(at) => self.read_guards(&at, owner),
            None => Vec::new(),
        };
        let call = RedisCommands { commands, guards, keep_ms: 0 };
        let keys = keys(&call);
        check_tags(&keys, &at.place, &mut self.report);
        Call { to, body: Body::Redis(call), ..Call::nothing(Method::Post) }
    }

    fn refuse_http(&mut self, fields: &mut Fields<'_>) {
        for (name, _) in METHODS {
            if let Some(at) = fields.get(name) {
                self.report.problem(
                    &at.place,
                    format!("there are both `{name}` and `redis`: an operation is a request or commands"),
                    "keep one of the two",
                );
            }
        }
        for (name, why) in OF_HTTP {
            if let Some(at) = fields.get(name) {
                self.report.problem(
                    &at.place,
                    format!(
                        "`{name}` belongs to a request over HTTP, and this operation is Redis commands: {why}"
                    ),
                    format!("remove `{name}`"),
                );
            }
        }
    }

    /// Commands are repeated and asked about through the fence, so there must be one.
    fn check_participant(&mut self, to: &str, at: &Place) {
        let Some(participant) = self.participants.by_name.get(to) else { return };
        if !participant.fenced {
            self.report.problem(
                at,
                format!(
                    "Redis commands run together with amends' fence, and `{to}` is not declared `fenced`"
                ),
                format!(
                    "write `fenced = true` in [participants.{to}], and no other `idempotency` than \"replay\""
                ),
            );
        }
        if participant.seals_after_ms.is_some() {
            self.report.problem(
                at,
                format!(
                    "`{to}` declares `seals_after`, but the fence in Redis refuses nothing for coming late"
                ),
                format!(
                    "remove `seals_after` from [participants.{to}]: the fence's compensation proves more"
                ),
            );
        }
    }

    fn read_commands(&mut self, at: &At<'_>, owner: Owner) -> Vec<Vec<Template>> {
        let Some(items) =
            at.list("commands, each a list of texts", "[[\"INCRBY\", \"stock\", \"-1\"]]", &mut self.report)
        else {
            return Vec::new();
        };
        if items.is_empty() || items.len() > COMMANDS_MAX {
            self.report.problem(
                &at.place,
                format!("{} commands: an operation has 1 to {COMMANDS_MAX}", items.len()),
                "Redis does nothing else while they run: split the step if there are more, leave the operation out if there are none",
            );
            return Vec::new();
        }
        let commands: Vec<_> = items.iter().filter_map(|item| self.read_command(item, owner)).collect();
        let words: usize = commands.iter().map(Vec::len).sum();
        if words > WORDS_MAX {
            self.report.problem(
                &at.place,
                format!("the commands have {words} words, more than the {WORDS_MAX} there may be"),
                "split the step",
            );
        }
        commands
    }

    fn read_command(&mut self, at: &At<'_>, owner: Owner) -> Option<Vec<Template>> {
        let items = at.list(
            "texts: a command and its arguments",
            "[\"INCRBY\", \"stock\", \"-1\"]",
            &mut self.report,
        )?;
        let words = items
            .iter()
            .map(|item| {
                item.text("-1", &mut self.report).and_then(|text| self.read_template(text, item, owner))
            })
            .collect::<Option<Vec<Template>>>()?;
        let name = words.first().map_or(Some(""), |word| literal(word)).unwrap_or("${…}");
        let Some(spec) = command(name) else {
            let likely = if self.report.is_full() { None } else { nearest_command(name) };
            let remedy = match likely {
                Some(name) => format!("did you mean {name}?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let shown: String = name.chars().take(64).collect();
            self.report.problem(
                &at.place,
                format!("{shown:?} is no command that an operation may have"),
                remedy,
            );
            return None;
        };
        match kinds(&words) {
            Ok(kinds) => {
                for ((kind, word), item) in kinds.into_iter().zip(&words[1..]).zip(&items[1..]) {
                    self.check_word(spec.name, kind, word, &item.place);
                }
                Some(words)
            }
            Err(reason) => {
                self.report.problem(
                    &at.place,
                    reason,
                    "write the words that it takes; `+n` means that the last n may repeat",
                );
                None
            }
        }
    }

    fn read_guards(&mut self, at: &At<'_>, owner: Owner) -> Vec<RedisGuard<Template>> {
        let items =
            at.list("guards", "[{ key = \"stock:{${input.sku}}\", at_least = \"1\" }]", &mut self.report);
        let items = items.unwrap_or_default();
        if items.len() > COMMANDS_MAX {
            self.report.problem(
                &at.place,
                format!("{} guards are more than the {COMMANDS_MAX} there may be", items.len()),
                "split the step",
            );
            return Vec::new();
        }
        items.iter().filter_map(|item| self.read_guard(item, owner)).collect()
    }

    fn read_guard(&mut self, at: &At<'_>, owner: Owner) -> Option<RedisGuard<Template>> {
        let mut fields = at.fields(GUARD_EXAMPLE, &mut self.report)?;
        let key = fields.require("key", GUARD_EXAMPLE, &mut self.report);
        let key = key.and_then(|at| self.read_word(&at, owner));
        let field = match fields.get("field") {
            Some(at) => Some(self.read_word(&at, owner)?),
            None => None,
        };
        let mut tests = Vec::new();
        if let Some(at) = fields.get("exists") {
            let exists = at.boolean(&mut self.report);
            if exists == Some(false) {
                self.report.problem(
                    &at.place,
                    "a guard can ask that something is there, not that it is not",
                    "write `exists = true`, or remove it",
                );
            }
            tests.push(exists.map(|_| RedisTest::Exists));
        }
        if let Some(at) = fields.get("equals") {
            tests.push(self.read_word(&at, owner).map(RedisTest::Equals));
        }
        if let Some(at) = fields.get("at_least") {
            let bound = self.read_word(&at, owner);
            if let Some(bound) = &bound {
                self.check_word("`at_least`", Word::Integer, bound, &at.place);
            }
            tests.push(bound.map(RedisTest::AtLeast));
        }
        fields.finish(&mut self.report);
        if tests.len() != 1 {
            self.report.problem(
                &at.place,
                format!("a guard has one of `exists`, `equals` and `at_least`, and this has {}", tests.len()),
                "write one guard for each thing that must hold",
            );
        }
        Some(RedisGuard { key: key?, field, test: tests.pop()?? })
    }

    fn read_word(&mut self, at: &At<'_>, owner: Owner) -> Option<Template> {
        let text = at.text("1", &mut self.report)?;
        self.read_template(text, at, owner)
    }

    /// Reports a word that cannot be what it must, whatever its values are.
    fn check_word(&mut self, what: &str, kind: Word, word: &Template, at: &Place) {
        let fits = match literal(word) {
            Some(text) => kind.fits(text),
            None => word.parts.iter().enumerate().all(|(i, part)| match (part, kind) {
                (Part::Text(text), Word::Integer | Word::Decimal | Word::Time) => {
                    let rest = if i == 0 { text.strip_prefix('-').unwrap_or(text) } else { text };
                    rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
                }
                (Part::Text(_), Word::Key | Word::Any | Word::Option) | (Part::Path(_), _) => true,
            }),
        };
        if !fits {
            self.report.problem(
                at,
                format!("{what} needs {} here", kind.in_words()),
                "write it as Redis takes it, such as \"-5\", or \"-${input.amount}\" where it is known later",
            );
        }
    }
}

/// The query of an operation that is commands: the fence is asked, at the place where the same commands have it.
pub(in crate::definition) fn implied_query(op: &Operation) -> Option<Query> {
    let Body::Redis(_) = &op.body else { return None };
    Some(Query {
        to: op.to.clone(),
        method: Method::Get,
        path: op.path.clone(),
        headers: Vec::new(),
        body: op.body.clone(),
        timeout_ms: op.timeout_ms,
        outcome: None,
        serial: Vec::new(),
        needs_serial: false,
    })
}

/// Sets how long the fence keeps what it knows of the operation.
pub(in crate::definition) fn keep(op: &mut Operation) {
    let keep = op.key_ttl_ms.saturating_add(op.on_unknown.verify_for_ms).saturating_add(FENCE_MARGIN_MS);
    if let Body::Redis(call) = &mut op.body {
        call.keep_ms = keep;
    }
}

/// Reports a compensation that could not find its action's fence: the record lies beside the first key.
pub(in crate::definition) fn check_same_place(step: &Step, at: &Place, report: &mut Report) {
    let (Some(action), Some(compensation)) = (&step.action, &step.compensation) else { return };
    let (action, compensation) = match (&action.body, &compensation.body) {
        (Body::Redis(action), Body::Redis(compensation)) => (action, compensation),
        (Body::Redis(_), Body::None | Body::Json(_) | Body::Form(_))
        | (Body::None | Body::Json(_) | Body::Form(_), Body::Redis(_)) => {
            report.problem(
                at,
                format!(
                    "of step `{}` one operation is Redis commands, the other a request over HTTP",
                    step.name
                ),
                "write both as `redis`: the fence must see both",
            );
            return;
        }
        (Body::None | Body::Json(_) | Body::Form(_), Body::None | Body::Json(_) | Body::Form(_)) => return,
    };
    let (Some(of_action), Some(of_compensation)) =
        (keys(action).first().copied(), keys(compensation).first().copied())
    else {
        return;
    };
    if place(of_action) != place(of_compensation) {
        report.problem(
            at,
            format!("the first keys of action and compensation of step `{}` have different hash tags: the fence could not be found again", step.name),
            "give all keys of a step the same tag, written in the same way, as in \"balance:{${input.user}}\" and \"holds:{${input.user}}\"",
        );
    }
}

/// The templates of all keys, those of the commands first.
fn keys(call: &RedisCommands) -> Vec<&Template> {
    let mut keys = Vec::new();
    for words in &call.commands {
        let kinds = kinds(words).unwrap_or_default();
        keys.extend(
            kinds.into_iter().zip(&words[1..]).filter(|(kind, _)| *kind == Word::Key).map(|(_, word)| word),
        );
    }
    keys.extend(call.guards.iter().map(|guard| &guard.key));
    keys
}

/// What the words of a command after its name are, or what is wrong with their number.
pub(super) fn kinds(words: &[Template]) -> Result<Vec<Word>, String> {
    let Some(spec) = words.first().and_then(literal).and_then(command) else { return Ok(Vec::new()) };
    let arguments: Vec<_> = words[1..].iter().map(literal).collect();
    spec.words(&arguments)
}

fn nearest_command(name: &str) -> Option<&'static str> {
    nearest(
        &name.to_ascii_uppercase(),
        names().map(str::to_lowercase).collect::<Vec<_>>().iter().map(String::as_str),
    )
    .and_then(command)
    .map(|command| command.name)
}

/// Reports literal keys that no other key can share a slot with, and those that do not share one. What has paths is looked at before
/// each call.
fn check_tags(keys: &[&Template], at: &Place, report: &mut Report) {
    let mut first: Option<(&str, &str)> = None;
    for key in keys.iter().filter_map(|key| literal(key)) {
        let shown: String = key.chars().take(64).collect();
        let Some(tag) = hash_tag(key) else {
            report.problem(
                at,
                format!("the key {shown:?} has no hash tag that the fence's key could have too"),
                "a key is not empty, and where it has a `}` it has a tag such as {order}",
            );
            return;
        };
        match first {
            None => first = Some((key, tag)),
            Some((_, tag_of_first)) if tag_of_first == tag => {}
            Some((other, _)) => {
                let other: String = other.chars().take(64).collect();
                report.problem(
                    at,
                    format!("the keys {other:?} and {shown:?} have different hash tags, and one call can touch one slot only"),
                    "give them the same tag, as in \"stock:{eu}\" and \"holds:{eu}\"; or make two steps",
                );
                return;
            }
        }
    }
}

/// The text of a template without paths.
fn literal(template: &Template) -> Option<&str> {
    match template.parts.as_slice() {
        [] => Some(""),
        [Part::Text(text)] => Some(text),
        [Part::Path(_)] | [_, _, ..] => None,
    }
}

/// What decides where the fence lies beside a key. Equal places are equal whatever the values are.
#[derive(Debug, PartialEq)]
enum FencePlace {
    /// In the slot of this tag.
    Literal(String),
    /// In the slot of what these parts become, between braces.
    Tag(Vec<Part>),
    /// In that of the key that these parts become.
    Key(Vec<Part>),
}

fn place(key: &Template) -> FencePlace {
    if let Some(tag) = literal(key) {
        return FencePlace::Literal(hash_tag(tag).unwrap_or(tag).to_owned());
    }
    // A value before the first brace may have one of its own.
    let Some(Part::Text(first)) = key.parts.first() else { return FencePlace::Key(key.parts.clone()) };
    let Some((_, after)) = first.split_once('{') else { return FencePlace::Key(key.parts.clone()) };
    let mut tag = Vec::new();
    for (i, part) in key.parts.iter().enumerate() {
        match part {
            Part::Text(text) => {
                let text = if i == 0 { after } else { text };
                let (inside, closed) = match text.split_once('}') {
                    Some((inside, _)) => (inside, true),
                    None => (text, false),
                };
                if !inside.is_empty() {
                    tag.push(Part::Text(inside.to_owned()));
                }
                match (closed, tag.is_empty()) {
                    (true, false) => return FencePlace::Tag(tag),
                    // `{}` is no tag: the whole key decides.
                    (true, true) => return FencePlace::Key(key.parts.clone()),
                    (false, _) => {}
                }
            }
            Part::Path(_) => tag.push(part.clone()),
        }
    }
    FencePlace::Key(key.parts.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(text: &str) -> FencePlace {
        place(&Template::parse(text, &|_| None).unwrap())
    }

    #[test]
    fn where_the_fence_lies() {
        for (a, b, same) in [
            ("foo", "{foo}:x", true),
            ("foo", "fo", false),
            ("a:{${input.u}}", "{${input.u}}:b:${id}", true),
            ("a:{u${input.u}}", "{${input.u}}", false),
            ("a:{${input.u}}", "a:{${input.v}}", false),
            // The value may have braces of its own.
            ("${id}:{${input.u}}", "{${input.u}}", false),
            ("${id}:{${input.u}}", "${id}:{${input.u}}", true),
            ("k:${id}", "{k:${id}}", false),
            ("k:${id}", "k:${id}", true),
            ("{}${id}", "{}${input.u}", false),
        ] {
            assert_eq!(place_of(a) == place_of(b), same, "{a} and {b}");
        }
    }
}
