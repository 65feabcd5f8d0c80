//! A row of the inbox, as values.

use serde_json::Value;

use crate::answer::{ANSWER_BYTES_MAX, rejected};
use crate::{Answer, Error, Found, Key, RequestHash};

/// Why an action is refused that comes after its tombstone.
const TOO_LATE: &str = "it was undone before it arrived";

/// What the engine does not take for a fact when a query answers it as `outcome` with 200.
const NO_FACT: [&str; 5] = ["rejected", "in_progress", "never_seen", "sealed", "not_executed"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Action,
    Compensation,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Compensation => "compensation",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Action, Self::Compensation].into_iter().find(|operation| operation.as_str() == text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Taken by a transaction that is not over. Nobody else ever sees it.
    Running,
    Done,
    Rejected,
    /// A tombstone.
    Sealed,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Rejected => "rejected",
            Self::Sealed => "sealed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Rejected, Self::Sealed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// What an operation came to, ready to be stored.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) state: State,
    /// The answer's body, as it is sent.
    pub(crate) text: String,
    answer: Answer,
}

impl Settled {
    /// An action was carried out, with this fact.
    pub(crate) fn acted(fact: Value) -> Result<Self, Error> {
        // A query that answers 200 with null is no answer.
        Self::done(if fact.is_null() { Value::Object(serde_json::Map::new()) } else { fact })
    }

    /// An action was undone, with this fact.
    pub(crate) fn undid(fact: Value) -> Result<Self, Error> {
        let mut fact = match fact {
            Value::Null => serde_json::Map::new(),
            Value::Object(fact) => fact,
            other => {
                let what =
                    format!("a compensation answers an object, to which `undone` is added, not {other:.60}");
                return Err(Error::Fact(what));
            }
        };
        fact.insert("undone".to_owned(), Value::Bool(true));
        Self::done(Value::Object(fact))
    }

    /// What a compensation is answered that has nothing to undo, or nothing more.
    pub(crate) fn undone(undone: bool) -> Result<Self, Error> {
        Self::done(serde_json::json!({ "undone": undone }))
    }

    fn done(fact: Value) -> Result<Self, Error> {
        if let Some(word) = fact["outcome"].as_str().filter(|word| NO_FACT.contains(word)) {
            let what =
                format!("its member `outcome` is \"{word}\", which the engine would take for its own word");
            return Err(Error::Fact(what));
        }
        Self::kept(State::Done, fact.to_string(), Answer::Done(fact))
    }

    /// It was refused, for good.
    pub(crate) fn rejected(reason: String) -> Result<Self, Error> {
        Self::kept(State::Rejected, rejected(&reason).to_string(), Answer::Rejected { reason })
    }

    fn kept(state: State, text: String, answer: Answer) -> Result<Self, Error> {
        if text.len() > ANSWER_BYTES_MAX {
            return Err(Error::Fact(format!("it has {} bytes, more than {ANSWER_BYTES_MAX}", text.len())));
        }
        Ok(Self { state, text, answer })
    }

    pub(crate) fn into_answer(self) -> Answer {
        self.answer
    }
}

/// A row's columns as they are stored.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) operation: String,
    pub(crate) state: String,
    pub(crate) action_key: Option<String>,
    pub(crate) request_hash: Option<Vec<u8>>,
    pub(crate) answer: Option<String>,
    pub(crate) undone_by: Option<String>,
}

/// A row that was read.
#[derive(Debug)]
pub(crate) struct Record {
    key: String,
    pub(crate) operation: Operation,
    pub(crate) state: State,
    pub(crate) is_undone: bool,
    action_key: Option<String>,
    request_hash: Option<Vec<u8>>,
    answer: Value,
}

impl Record {
    pub(crate) fn read(key: &Key, columns: Columns) -> Result<Self, Error> {
        let corrupt = |what: String| Error::Corrupt { key: key.to_string(), what };
        let parsed = (Operation::parse(&columns.operation), State::parse(&columns.state));
        let (Some(operation), Some(state)) = parsed else {
            return Err(corrupt(format!("operation {:?}, state {:?}", columns.operation, columns.state)));
        };
        let answer = columns.answer.map_or(Ok(Value::Null), |text| serde_json::from_str(&text));
        Ok(Self {
            key: key.to_string(),
            operation,
            state,
            is_undone: columns.undone_by.is_some(),
            action_key: columns.action_key,
            request_hash: columns.request_hash,
            answer: answer.map_err(|e| corrupt(format!("its answer is no JSON ({e})")))?,
        })
    }

    /// The answer to a call that is not the first.
    pub(crate) fn answer_to(
        self,
        operation: Operation,
        action_key: Option<&Key>,
        request: &RequestHash,
    ) -> Result<Answer, Error> {
        let is_same =
            self.operation == operation && self.action_key.as_deref() == action_key.map(Key::as_str);
        // A tombstone was made without knowing the request.
        let is_same_request =
            self.state == State::Sealed || self.request_hash.as_deref() == Some(request.as_bytes());
        if !is_same || !is_same_request {
            return Err(Error::Different { key: self.key });
        }
        match self.state {
            State::Running => Err(Error::Unfinished { key: self.key }),
            State::Done => Ok(Answer::Done(self.answer)),
            State::Rejected => Ok(Answer::Rejected { reason: self.reason() }),
            State::Sealed => Ok(Answer::Rejected { reason: TOO_LATE.to_owned() }),
        }
    }

    /// The answer to a query.
    pub(crate) fn found(self) -> Result<Found, Error> {
        match self.state {
            State::Running => Err(Error::Unfinished { key: self.key }),
            State::Done => Ok(Found::Done(self.answer)),
            State::Rejected => Ok(Found::Rejected { reason: self.reason() }),
            State::Sealed => Ok(Found::Sealed),
        }
    }

    /// The fact of what was done.
    pub(crate) fn into_fact(self) -> Value {
        self.answer
    }

    fn reason(&self) -> String {
        self.answer["reason"].as_str().unwrap_or_default().to_owned()
    }
}
