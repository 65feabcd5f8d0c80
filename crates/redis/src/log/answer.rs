//! The answers of functions: lists of words, the first of which says what the others are.

use redis::Value;

use crate::client::{Error, Function};

/// The words of an answer, read from the front.
#[derive(Debug)]
pub(crate) struct Words {
    function: &'static str,
    words: std::vec::IntoIter<Vec<u8>>,
    all: Value,
}

impl Words {
    pub(crate) fn new(function: &Function, answer: Value) -> Result<Self, Error> {
        let read = |value: &Value| match value {
            Value::BulkString(bytes) => Some(bytes.clone()),
            _ => None,
        };
        let words = match &answer {
            Value::Array(values) => values.iter().map(read).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let words = words.ok_or_else(|| Error::unreadable(function.name, &answer))?.into_iter();
        Ok(Self { function: function.name, words, all: answer })
    }

    /// The error that the answer is none of those expected.
    pub(crate) fn unreadable(&self) -> Error {
        Error::unreadable(self.function, &self.all)
    }

    pub(crate) fn next(&mut self) -> Result<Vec<u8>, Error> {
        self.words.next().ok_or_else(|| self.unreadable())
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        let word = self.next()?;
        Ok(String::from_utf8_lossy(&word).into_owned())
    }

    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        let word = self.text()?;
        word.parse().map_err(|_| self.unreadable())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.len() == 0
    }
}
