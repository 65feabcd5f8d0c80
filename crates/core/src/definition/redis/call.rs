//! The call that Redis commands make: as stated in a definition, and as rendered.

use std::collections::BTreeSet;

use super::table::{BYTES_MAX, COMMANDS_MAX, WORDS_MAX, Word, command};
use crate::template::{Missing, Path, Scope, Template};

/// How much longer than `key_ttl` and `verify_for` together a fence keeps its records, in milliseconds: a day, for clocks that
/// differ, and for sends that were held back.
pub const FENCE_MARGIN_MS: u64 = 24 * 3_600_000;

/// The commands of an operation and what must hold before any of them runs, as stated in a definition.
pub type RedisCommands = Call<Template>;

/// The same, rendered.
pub type RedisCall = Call<String>;

/// Commands that run in one function call, all or none, and their guards. `T` is what a word is: a template, or a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<T> {
    /// The commands, each as its words: name and arguments.
    pub commands: Vec<Vec<T>>,
    /// What must hold before the first command runs.
    pub guards: Vec<RedisGuard<T>>,
    /// How long the fence keeps what it knows of this key, in milliseconds: longer than `key_ttl` and `verify_for`.
    pub keep_ms: u64,
}

/// What must hold of a key, or of a field of a hash, before the first command runs. If it does not, the operation is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisGuard<T> {
    /// The key.
    pub key: T,
    /// The field of the hash there; `None`: the value itself.
    pub field: Option<T>,
    /// What must hold.
    pub test: RedisTest<T>,
}

/// What a guard asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisTest<T> {
    /// It is there.
    Exists,
    /// It is there and has this text.
    Equals(T),
    /// It is a whole number that is not less than this one.
    AtLeast(T),
}

impl<T> Call<T> {
    /// All words and texts, in order.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a T)) {
        self.commands.iter().flatten().for_each(&mut *visit);
        for RedisGuard { key, field, test } in &self.guards {
            visit(key);
            field.iter().for_each(&mut *visit);
            match test {
                RedisTest::Exists => {}
                RedisTest::Equals(text) | RedisTest::AtLeast(text) => visit(text),
            }
        }
    }

    /// Makes a call of another kind of words, word by word.
    fn map<U, E>(&self, with: &dyn Fn(&T) -> Result<U, E>) -> Result<Call<U>, E> {
        let guard = |RedisGuard { key, field, test }: &RedisGuard<T>| {
            let test = match test {
                RedisTest::Exists => RedisTest::Exists,
                RedisTest::Equals(text) => RedisTest::Equals(with(text)?),
                RedisTest::AtLeast(text) => RedisTest::AtLeast(with(text)?),
            };
            Ok(RedisGuard { key: with(key)?, field: field.as_ref().map(with).transpose()?, test })
        };
        Ok(Call {
            commands: self
                .commands
                .iter()
                .map(|words| words.iter().map(with).collect())
                .collect::<Result<_, _>>()?,
            guards: self.guards.iter().map(guard).collect::<Result<_, _>>()?,
            keep_ms: self.keep_ms,
        })
    }
}

impl RedisCommands {
    /// Calls `visit` with each path it substitutes.
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        self.each(&mut |template| template.paths().for_each(&mut *visit));
    }

    /// Renders it: every word becomes a text.
    ///
    /// # Errors
    /// [`Missing`] names the first path that leads nowhere.
    pub fn render(&self, scope: &Scope<'_>) -> Result<RedisCall, Missing> {
        self.map(&|template: &Template| template.render_text(scope))
    }
}

/// Why a call cannot be made with the values it was rendered with. The display is a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is no such command, or it takes other words. With what is wrong.
    #[error("{0}")]
    Command(String),
    /// A word that must be a number, a time or a key is none.
    #[error("{command} needs {wanted} where it has {word:?}")]
    Word {
        /// The command, or `guard`.
        command: String,
        /// What is wanted, in words.
        wanted: &'static str,
        /// The word.
        word: String,
    },
    /// It is more than one call may have.
    #[error(
        "the commands have {words} words of {bytes} bytes, more than the {WORDS_MAX} of {BYTES_MAX} that one call may have"
    )]
    Size {
        /// How many words.
        words: usize,
        /// Of how many bytes.
        bytes: usize,
    },
    /// A key that no other key can share a hash slot with.
    #[error(
        "the key {0:?} has no hash tag that other keys can have: a key is not empty, and a `}}` in it closes a tag with something in it"
    )]
    Key(String),
    /// Two keys of different hash tags.
    #[error("the keys {0:?} and {1:?} have different hash tags: what runs in one call is in one slot")]
    Slot(String, String),
}

impl RedisCall {
    fn check_size(&self) -> Result<(), Unfit> {
        let (mut words, mut bytes) = (0, 0);
        self.each(&mut |text| {
            words += 1;
            bytes += text.len();
        });
        let many = self.commands.len() > COMMANDS_MAX || self.guards.len() > COMMANDS_MAX;
        if many || words > WORDS_MAX || bytes > BYTES_MAX {
            Err(Unfit::Size { words, bytes })
        } else {
            Ok(())
        }
    }

    /// What is to be done, as bytes that differ if anything of it differs: commands and guards, not how long it is remembered.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |text: &str| {
            out.extend_from_slice(&(text.len() as u64).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        };
        for words in &self.commands {
            put(&words.len().to_string());
            words.iter().for_each(|word| put(word));
        }
        for RedisGuard { key, field, test } in &self.guards {
            put("guard");
            put(key);
            put(if field.is_some() { "field" } else { "value" });
            put(field.as_deref().unwrap_or_default());
            let (word, text) = match test {
                RedisTest::Exists => ("exists", ""),
                RedisTest::Equals(text) => ("equals", text.as_str()),
                RedisTest::AtLeast(text) => ("at_least", text.as_str()),
            };
            put(word);
            put(text);
        }
        out
    }

    /// The keys that it reads or writes, each once, in the order of their first use: of the commands first, then of the guards.
    /// And the hash tag that all share.
    ///
    /// # Errors
    /// What is wrong with the values, before anything is sent: keys of different tags, words that are no whole numbers.
    pub fn check(&self) -> Result<(Vec<&str>, &str), Unfit> {
        let mut keys: Vec<&str> = Vec::new();
        self.check_size()?;
        for words in &self.commands {
            let (name, arguments) =
                words.split_first().ok_or_else(|| Unfit::Command("a command is empty".into()))?;
            let spec = command(name).ok_or_else(|| {
                Unfit::Command(format!("{:?} is no command that an operation may have", shown(name)))
            })?;
            let texts: Vec<_> = arguments.iter().map(|text| Some(text.as_str())).collect();
            let kinds = spec.words(&texts).map_err(Unfit::Command)?;
            for (kind, text) in kinds.into_iter().zip(arguments) {
                check_word(spec.name, kind, text)?;
                if kind == Word::Key {
                    keys.push(text);
                }
            }
        }
        for guard in &self.guards {
            if let RedisTest::AtLeast(bound) = &guard.test {
                check_word("guard", Word::Integer, bound)?;
            }
            keys.push(&guard.key);
        }
        let mut seen = BTreeSet::new();
        keys.retain(|key| seen.insert(*key));
        let first = *keys.first().ok_or_else(|| Unfit::Command("there is no command".into()))?;
        let tag = hash_tag(first).ok_or_else(|| Unfit::Key(shown(first)))?;
        for key in &keys {
            let other = hash_tag(key).ok_or_else(|| Unfit::Key(shown(key)))?;
            if other != tag {
                return Err(Unfit::Slot(shown(first), shown(key)));
            }
        }
        Ok((keys, tag))
    }
}

fn check_word(command: &str, kind: Word, text: &str) -> Result<(), Unfit> {
    if kind.fits(text) {
        return Ok(());
    }
    Err(Unfit::Word { command: command.to_owned(), wanted: kind.in_words(), word: shown(text) })
}

/// The beginning of a text: what is wrong with a word is seen there, and a reason is a sentence.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The hash tag of a key: what stands between its first `{` and the next `}`, if that is anything, else the whole key. Keys of
/// one tag share a slot.
///
/// `None` for a key whose tag cannot be put between braces again: an empty one, or one with a `}` that closes no tag. Nothing can
/// be kept beside it.
///
/// Source: the Redis cluster specification, "Hash tags".
#[must_use]
pub fn hash_tag(key: &str) -> Option<&str> {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let tag = tagged.filter(|tag| !tag.is_empty()).unwrap_or(key);
    (!tag.is_empty() && !tag.contains('}')).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(commands: &[&[&str]], guards: &[&str]) -> RedisCall {
        let words = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        RedisCall {
            commands: commands.iter().map(words).collect(),
            guards: guards
                .iter()
                .map(|key| RedisGuard { key: (*key).to_owned(), field: None, test: RedisTest::Exists })
                .collect(),
            keep_ms: 1,
        }
    }

    #[test]
    fn keys_are_gathered_once() {
        let call = call(&[&["DEL", "a:{u}", "b:{u}"], &["INCRBY", "a:{u}", "-5"]], &["{u}:c", "b:{u}"]);
        assert_eq!(call.check(), Ok((vec!["a:{u}", "b:{u}", "{u}:c"], "u")));
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        for (commands, guards, reason) in [
            (vec![&["INCRBY", "a", "--5"][..]], vec![], "INCRBY needs a whole number where it has \"--5\""),
            (
                vec![&["HINCRBY", "a", "f", "1.5"]],
                vec![],
                "HINCRBY needs a whole number where it has \"1.5\"",
            ),
            (vec![&["SET", "a{1}", "x"], &["SET", "a{2}", "x"]], vec![], "have different hash tags"),
            (vec![&["SET", "a{1}", "x"]], vec!["a{2}"], "have different hash tags"),
            (vec![&["SET", "", "x"]], vec![], "SET needs a key where it has \"\""),
            (vec![&["SET", "a{}", "x"]], vec![], "the key \"a{}\" has no hash tag"),
            (vec![&["FLUSHALL", "a"]], vec![], "is no command"),
            (vec![], vec![], "there is no command"),
        ] {
            let said = call(&commands, &guards).check().unwrap_err().to_string();
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn the_tag_of_a_key() {
        for (key, tag) in [
            ("foo", Some("foo")),
            ("a{foo}b", Some("foo")),
            ("{foo}{bar}", Some("foo")),
            ("{{foo}}", Some("{foo")),
            ("foo{", Some("foo{")),
            ("{}foo", None),
            ("a}b", None),
            ("", None),
        ] {
            assert_eq!(hash_tag(key), tag, "{key}");
        }
    }
}
