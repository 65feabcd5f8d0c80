//! Statements as text. Bytes and texts go into them as hexadecimal literals, and numbers as digits: nothing that came from outside is
//! ever read as SQL, whatever character set or mode a session has.

use amends_core::Time;
use amends_store::{Error, Kind};

/// A value in a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Unsigned(u64),
    Signed(i64),
    Bytes(&'a [u8]),
    /// The number of a saga that this transaction inserts, as far from that of the first one as this.
    New(u64),
    /// What `IN (…)` looks for. An empty one finds nothing.
    List(Vec<Value<'a>>),
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Unsigned(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Signed(value)
    }
}

impl From<Time> for Value<'_> {
    fn from(value: Time) -> Self {
        Self::Signed(value.0)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Unsigned(u64::from(value))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Bytes(value.as_bytes())
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Bytes(value.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'a> From<&'a Option<String>> for Value<'a> {
    fn from(value: &'a Option<String>) -> Self {
        value.as_deref().into()
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'a> Value<'a> {
    /// What `IN (…)` looks for.
    pub(crate) fn list<T: Into<Value<'a>>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }

    fn write(&self, to: &mut String) {
        match self {
            Self::Null => to.push_str("NULL"),
            Self::Unsigned(value) => to.push_str(&value.to_string()),
            Self::Signed(value) => to.push_str(&value.to_string()),
            Self::Bytes(value) => {
                to.push_str("x'");
                to.push_str(&hex::encode(value));
                to.push('\'');
            }
            Self::New(distance) => {
                to.push_str("@amends_first+");
                to.push_str(&distance.to_string());
            }
            Self::List(values) if values.is_empty() => to.push_str("NULL"),
            Self::List(values) => write_all(values, to),
        }
    }
}

fn write_all(values: &[Value<'_>], to: &mut String) {
    for (nth, value) in values.iter().enumerate() {
        if nth > 0 {
            to.push(',');
        }
        value.write(to);
    }
}

/// A statement with values in place of its question marks.
pub(crate) fn fill(template: &str, values: &[Value<'_>]) -> String {
    let mut parts = template.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut values = values.iter();
    for part in parts {
        values
            .next()
            .expect("invariant: a statement has as many places as it is given values")
            .write(&mut text);
        text.push_str(part);
    }
    assert!(
        values.next().is_none(),
        "invariant: a statement is given as many values as it has places: {template}"
    );
    text
}

/// Statements that are sent in one go. The server carries them out in order, and none after one that failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    text: String,
    statements: usize,
}

impl Script {
    /// Of these statements.
    pub(crate) fn of(statements: &[&str]) -> Self {
        let mut script = Self::default();
        statements.iter().for_each(|statement| script.push(statement));
        script
    }

    /// Adds a statement at its end.
    pub(crate) fn push(&mut self, statement: &str) {
        if self.statements > 0 {
            self.text.push(';');
        }
        self.text.push_str(statement);
        self.statements += 1;
    }

    /// As it is sent.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How many answers it has.
    pub(crate) fn statements(&self) -> usize {
        self.statements
    }
}

/// All that a transaction writes, as scripts none of which is larger than the server takes.
#[derive(Debug)]
pub(crate) struct Texts {
    bytes_max: usize,
    scripts: Vec<Script>,
}

impl Texts {
    /// `bytes_max`: what the server takes at once.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, scripts: Vec::new() }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// How many statements there are.
    pub(crate) fn statements(&self) -> usize {
        self.scripts.iter().map(|script| script.statements).sum()
    }

    /// Adds a statement.
    ///
    /// # Errors
    /// [`Kind::Refused`] if it is larger than the server takes.
    pub(crate) fn push(&mut self, statement: &str) -> Result<(), Error> {
        // The last one has a COMMIT behind it.
        let room = self.bytes_max.saturating_sub(64);
        if statement.len() > room {
            let message = format!(
                "a statement of {} bytes is more than the server's max_allowed_packet lets through: raise it, in the section [mysqld] of \
                 its configuration",
                statement.len()
            );
            return Err(Error::new(Kind::Refused, message));
        }
        match self.scripts.last_mut() {
            Some(script) if script.text.len() + statement.len() <= room => script.push(statement),
            Some(_) | None => self.scripts.push(Script::of(&[statement])),
        }
        Ok(())
    }

    /// Adds rows to `head`, with `tail` behind them: one statement, or as many as it takes.
    ///
    /// # Errors
    /// [`Kind::Refused`] if one row is larger than the server takes.
    pub(crate) fn push_rows<'a>(
        &mut self,
        head: &str,
        rows: impl IntoIterator<Item = Vec<Value<'a>>>,
        tail: &str,
    ) -> Result<(), Error> {
        let room = self.bytes_max.saturating_sub(64 + tail.len());
        let mut statement = String::new();
        let mut row_text = String::new();
        for row in rows {
            row_text.clear();
            row_text.push('(');
            write_all(&row, &mut row_text);
            row_text.push(')');
            if !statement.is_empty() && statement.len() + row_text.len() >= room {
                statement.push_str(tail);
                self.push(&statement)?;
                statement.clear();
            }
            statement.push_str(if statement.is_empty() { head } else { "," });
            statement.push_str(&row_text);
        }
        if statement.is_empty() {
            return Ok(());
        }
        statement.push_str(tail);
        self.push(&statement)
    }

    /// The scripts, the last of which commits.
    pub(crate) fn committing(mut self) -> Vec<Script> {
        match self.scripts.last_mut() {
            Some(last) => last.push("COMMIT"),
            None => self.scripts.push(Script::of(&["COMMIT"])),
        }
        self.scripts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_question_marks_were_and_are_never_read_as_sql() {
        let text = fill(
            "SELECT ?, ?, ?, ? WHERE a IN (?) AND b IN (?)",
            &[
                "a'; DROP TABLE x; -- ?".into(),
                i64::MIN.into(),
                None::<u64>.into(),
                true.into(),
                Value::list([u64::MAX, 2]),
                Value::list(Vec::<u64>::new()),
            ],
        );
        let hex = hex::encode("a'; DROP TABLE x; -- ?");
        let expected = format!(
            "SELECT x'{hex}', -9223372036854775808, NULL, 1 WHERE a IN (18446744073709551615,2) AND b IN (NULL)"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_too_large_for_one_script_is_several_of_which_the_last_commits() {
        let mut texts = Texts::new(64 + 40);
        let rows = (0..6_u64).map(|nth| vec![nth.into(), "xyz".into()]);
        texts.push_rows("INSERT VALUES ", rows, " END").unwrap();
        texts.push("DO 1").unwrap();
        let texts: Vec<String> = texts.committing().iter().map(|script| script.text().to_owned()).collect();
        let expected = [
            "INSERT VALUES (0,x'78797a') END",
            "INSERT VALUES (1,x'78797a') END",
            "INSERT VALUES (2,x'78797a') END",
            "INSERT VALUES (3,x'78797a') END",
            "INSERT VALUES (4,x'78797a') END",
            "INSERT VALUES (5,x'78797a') END;DO 1;COMMIT",
        ];
        assert_eq!(texts, expected);
        let mut texts = Texts::new(64 + 60);
        texts
            .push_rows("INSERT VALUES ", (0..4_u64).map(|nth| vec![nth.into(), "xyz".into()]), " END")
            .unwrap();
        let texts: Vec<String> = texts.committing().iter().map(|script| script.text().to_owned()).collect();
        let expected = [
            "INSERT VALUES (0,x'78797a'),(1,x'78797a'),(2,x'78797a') END",
            "INSERT VALUES (3,x'78797a') END;COMMIT",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_row_that_the_server_would_not_take_is_refused_before_anything_is_sent() {
        let mut texts = Texts::new(64 + 40);
        let body = vec![b'x'; 40];
        let error = texts.push_rows("INSERT VALUES ", [vec![Value::from(body.as_slice())]], "").unwrap_err();
        assert_eq!(error.kind, Kind::Refused);
        assert!(error.message.contains("max_allowed_packet"), "{error}");
    }
}
