//! What functions are given and answer: words of bytes.

use std::str::FromStr;

use amends_core::{SagaId, Time};
use amends_store::{Error, Kind};
use redis::Value;

/// Arguments of a call, in order.
#[derive(Debug, Default)]
pub(super) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    pub(super) fn add(&mut self, word: impl Into<Vec<u8>>) -> &mut Self {
        self.0.push(word.into());
        self
    }

    pub(super) fn number(&mut self, number: impl ToString) -> &mut Self {
        self.add(number.to_string())
    }

    /// A time; none is an empty word.
    pub(super) fn time(&mut self, time: Option<Time>) -> &mut Self {
        self.add(time.map_or_else(String::new, |time| time.0.to_string()))
    }

    pub(super) fn append(&mut self, mut other: Self) -> &mut Self {
        self.0.append(&mut other.0);
        self
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn as_words(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

/// The words of an answer, taken one after the other.
#[derive(Debug)]
pub(super) struct Words {
    words: std::vec::IntoIter<Vec<u8>>,
    of: &'static str,
}

impl Words {
    pub(super) fn read(of: &'static str, value: Value) -> Result<Self, Error> {
        let Value::Array(values) = value else { return Err(unreadable(of, "no list")) };
        let words = values.into_iter().map(|value| match value {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            Value::Int(number) => Ok(number.to_string().into_bytes()),
            Value::Nil => Ok(Vec::new()),
            _ => Err(unreadable(of, "something that is no word")),
        });
        let words = words.collect::<Result<Vec<_>, _>>()?.into_iter();
        Ok(Self { words, of })
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.words.len()
    }

    pub(super) fn next(&mut self) -> Result<Vec<u8>, Error> {
        self.words.next().ok_or_else(|| unreadable(self.of, "too few words"))
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        let word = self.next()?;
        String::from_utf8(word).map_err(|_| unreadable(self.of, "a word that is no text"))
    }

    pub(super) fn number<T: FromStr>(&mut self) -> Result<T, Error> {
        let text = self.text()?;
        text.parse().map_err(|_| unreadable(self.of, "a word that is no number"))
    }

    /// A time; `None` for an empty word.
    pub(super) fn time(&mut self) -> Result<Option<Time>, Error> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(|ms| Some(Time(ms))).map_err(|_| unreadable(self.of, "a word that is no time"))
    }

    pub(super) fn id(&mut self) -> Result<SagaId, Error> {
        SagaId::new(self.text()?).map_err(|_| unreadable(self.of, "a word that is no saga's id"))
    }
}

/// An answer, or something stored, is not as this version writes it.
pub(super) fn unreadable(of: &str, what: &str) -> Error {
    Error::new(
        Kind::Corrupt,
        format!("{of} holds {what}: the keys amends:* were written by something else, or by a later version"),
    )
}
