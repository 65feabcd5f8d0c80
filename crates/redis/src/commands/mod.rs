//! Commands that Redis runs forward and back: a short whitelist, checked before anything is sent or kept.
//!
//! The functions check the same again, and moreover that no command can fail: a script has no rollback.

mod command;
mod guard;
mod pack;
mod table;
mod text;

use crate::client::{Error, slot};

pub use command::{Command, Malformed};
pub use guard::Guard;

pub(crate) use pack::{unpack, unpack_words};

/// The Lua side: what `log` and `participant` share. It comes after the table of commands.
pub(crate) const LUA: &str = include_str!("../../functions/commands.lua");

/// The most commands, or guards, of one call: they bound how long it keeps the server busy.
pub const COMMANDS_MAX: usize = 100;
/// The most words of all commands of one call together.
pub const WORDS_MAX: usize = 1_000;
/// The most bytes of all commands of one call together.
pub const BYTES_MAX: usize = 1 << 20;

/// A vector of commands: all of them run in one atomic step, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands(Vec<Command>);

impl Commands {
    /// Takes commands, in the order in which they run.
    ///
    /// # Errors
    /// If they exceed [`COMMANDS_MAX`], [`WORDS_MAX`] or [`BYTES_MAX`].
    pub fn new(commands: Vec<Command>) -> Result<Self, Malformed> {
        check_size(commands.iter().map(Command::words))?;
        Ok(Self(commands))
    }

    /// Reads each text as [`Command::parse`] does.
    ///
    /// # Errors
    /// At the first that is none, or if they are too many or too long.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, Malformed> {
        let commands: Result<_, _> = texts.into_iter().map(|text| Command::parse(text.as_bytes())).collect();
        Self::new(commands?)
    }

    /// Checks vectors of words, as they come from elsewhere.
    ///
    /// # Errors
    /// At the first that is none, or if they are too many or too long.
    pub fn check(vectors: Vec<Vec<Vec<u8>>>) -> Result<Self, Malformed> {
        check_size(vectors.iter().map(Vec::as_slice))?;
        let commands: Result<_, _> = vectors.into_iter().map(Command::new).collect();
        Ok(Self(commands?))
    }

    /// The commands.
    #[must_use]
    pub fn as_slice(&self) -> &[Command] {
        &self.0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every key they touch, each once, in order of appearance.
    #[must_use]
    pub fn keys(&self) -> Vec<&[u8]> {
        distinct(self.0.iter().flat_map(Command::keys))
    }

    /// Appends them to a function's arguments: their number, then each one's number of words and its words.
    pub fn append_to(&self, arguments: &mut Vec<Vec<u8>>) {
        append(self.0.iter().map(Command::words), arguments);
    }
}

/// Appends guards to a function's arguments, in the same way.
pub(crate) fn append_guards(guards: &[Guard], arguments: &mut Vec<Vec<u8>>) {
    let words: Vec<_> = guards.iter().map(Guard::words).collect();
    append(words.iter().map(Vec::as_slice), arguments);
}

/// Every key of commands and guards together, each once.
pub(crate) fn keys_of<'a>(parts: &[(&'a Commands, &'a [Guard])]) -> Vec<&'a [u8]> {
    distinct(parts.iter().flat_map(|(commands, guards)| {
        commands.0.iter().flat_map(Command::keys).chain(guards.iter().map(Guard::key))
    }))
}

/// Whether all keys share the slot of the first, as one call in a cluster needs.
///
/// # Errors
/// [`crate::ErrorKind::CrossSlot`], naming two keys and the remedy.
pub fn check_slots<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Result<(), Error> {
    let mut keys = keys.into_iter();
    let Some(first) = keys.next() else { return Ok(()) };
    match keys.find(|key| slot(key) != slot(first)) {
        Some(other) => Err(Error::cross_slot(first, other)),
        None => Ok(()),
    }
}

fn distinct<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let mut seen = std::collections::HashSet::new();
    keys.filter(|key| seen.insert(*key)).collect()
}

fn check_size<'a>(commands: impl Iterator<Item = &'a [Vec<u8>]>) -> Result<(), Malformed> {
    let (mut count, mut words, mut bytes) = (0, 0, 0);
    for command in commands {
        count += 1;
        words += command.len();
        bytes += command.iter().map(Vec::len).sum::<usize>();
    }
    for (what, is, max) in
        [("commands", count, COMMANDS_MAX), ("words", words, WORDS_MAX), ("bytes", bytes, BYTES_MAX)]
    {
        if is > max {
            return Err(Malformed::of_all(format!(
                "one call takes {max} {what}, and these are {is}: split them"
            )));
        }
    }
    Ok(())
}

fn append<'a>(vectors: impl ExactSizeIterator<Item = &'a [Vec<u8>]>, arguments: &mut Vec<Vec<u8>>) {
    arguments.push(vectors.len().to_string().into_bytes());
    for words in vectors {
        arguments.push(words.len().to_string().into_bytes());
        arguments.extend(words.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_functions() {
        for (name, max) in [("", COMMANDS_MAX), ("arguments_", WORDS_MAX), ("bytes_", BYTES_MAX)] {
            assert!(LUA.contains(&format!("local commands_{name}max = {max}\n")), "{name}{max}");
        }
        let many = vec!["DEL a"; COMMANDS_MAX + 1];
        assert!(Commands::parse(many).unwrap_err().to_string().contains("split them"));
    }

    #[test]
    fn keys_are_each_named_once() {
        let commands = Commands::parse(["DEL a b", "HSET a f v", "SET c v EX 5"]).unwrap();
        assert_eq!(commands.keys(), [b"a", b"b", b"c"]);
        assert!(check_slots([&b"{t}a"[..], b"x{t}"]).is_ok());
        assert_eq!(check_slots([&b"a"[..], b"b"]).unwrap_err().kind, crate::ErrorKind::CrossSlot);
    }

    #[test]
    fn packed_and_read_again_they_are_the_same() {
        let words = vec![
            vec![b"SET".to_vec(), b"k".to_vec(), vec![0, 255, b' ']],
            vec![b"DEL".to_vec(), b"x".to_vec()],
        ];
        let packed = pack::pack(&words);
        assert_eq!(unpack(&packed), Some(words));
        for length in 0..packed.len() {
            assert_eq!(unpack(&packed[..length]), None, "{length}");
        }
    }
}
