//! What can be said of commands when a saga is submitted: a value that makes a command that cannot be is refused with the input, not
//! with the step.

use super::call::{RedisCommands, hash_tag};
use super::read::kinds;
use super::table::Word;
use crate::template::{Missing, Scope, Template, Why};

impl RedisCommands {
    /// Checks the words and keys whose values are known by now, which `is_known` tells of each.
    ///
    /// # Errors
    /// [`Missing`] names the first path whose value makes no number, no key, or keys of different hash tags.
    pub(in crate::definition) fn check_known(
        &self,
        scope: &Scope<'_>,
        is_known: fn(&Template) -> bool,
    ) -> Result<(), Missing> {
        let mut keys: Vec<&Template> = Vec::new();
        for words in &self.commands {
            for (kind, word) in kinds(words).unwrap_or_default().into_iter().zip(&words[1..]) {
                if kind == Word::Key {
                    keys.push(word);
                } else if is_known(word) && !kind.fits(&word.render_text(scope)?) {
                    return Err(missing(
                        word,
                        Why::Redis("makes no number that the Redis command could take"),
                    ));
                }
            }
        }
        keys.extend(self.guards.iter().map(|guard| &guard.key));
        let mut first: Option<String> = None;
        for key in keys.into_iter().filter(|key| key.paths().next().is_none() || is_known(key)) {
            let text = key.render_text(scope)?;
            let tag = hash_tag(&text).ok_or_else(|| {
                missing(key, Why::Redis("makes a key without a hash tag that other keys could have"))
            })?;
            match &first {
                None => first = Some(tag.to_owned()),
                Some(first) if first == tag => {}
                Some(_) => {
                    return Err(missing(
                        key,
                        Why::Redis("makes keys of different hash tags, which one call of Redis cannot touch"),
                    ));
                }
            }
        }
        Ok(())
    }
}

fn missing(word: &Template, why: Why) -> Missing {
    // A literal key that differs from the others is one of them: the others have the path.
    let path = word.paths().next().map_or_else(|| "input".to_owned(), ToString::to_string);
    Missing { path, why }
}
