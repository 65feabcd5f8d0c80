//! What became of a call.

use std::fmt;
use std::time::Duration;

use crate::client::Error;

use super::{Status, Words};

/// What one command answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// `OK`.
    Ok,
    /// A number, such as the sum that an increment left.
    Integer(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nothing.
    Nothing,
}

/// Why nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A guard is not met.
    Guard,
    /// A key holds another type than a command needs.
    WrongType,
    /// What is to be counted up is no integer.
    NotInteger,
    /// A number would leave 64 bits.
    Overflow,
    /// The user may not run one of the commands.
    NotPermitted,
    /// The rollback, or the status, is not of the shape it should have.
    Malformed,
    /// An earlier call stopped midway, which no server that works does: a person must look.
    HalfDone,
}

impl Reason {
    /// The word that the functions answer.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::WrongType => "wrong-type",
            Self::NotInteger => "not-integer",
            Self::Overflow => "overflow",
            Self::NotPermitted => "not-permitted",
            Self::Malformed => "malformed",
            Self::HalfDone => "half-done",
        }
    }

    /// Whether trying again later, with nobody doing anything about it, can end otherwise.
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self {
            Self::Guard | Self::WrongType | Self::NotInteger | Self::Overflow | Self::NotPermitted => true,
            Self::Malformed | Self::HalfDone => false,
        }
    }
}

/// Why nothing was done, in full. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What to act on.
    pub reason: Reason,
    /// What stands in the way.
    pub detail: String,
}

impl Refusal {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }

    fn read(words: &mut Words) -> Result<Self, Error> {
        let word = words.text()?;
        let all = [
            Reason::Guard,
            Reason::WrongType,
            Reason::NotInteger,
            Reason::Overflow,
            Reason::NotPermitted,
            Reason::Malformed,
            Reason::HalfDone,
        ];
        let reason =
            all.into_iter().find(|reason| reason.word() == word).ok_or_else(|| words.unreadable())?;
        Ok(Self { reason, detail: words.text()? })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.word(), self.detail)
    }
}

/// What became of a begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// It is written, and what was to run has run: now, or by an earlier call with the same content.
    Begun(Begun),
    /// The id has a record of other content, which was left alone.
    Different,
    /// Nothing was written or run.
    Refused(Refusal),
}

/// What is begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Where it stands now: a later call may find it settled.
    pub status: Status,
    /// When it was begun, in seconds of Unix time on the server's clock.
    pub created_at: u64,
    /// When it becomes a dead letter if it is not settled: seconds of Unix time.
    pub expire_at: u64,
    /// After how long a scanner undoes it.
    pub timeout: Duration,
    /// What the forward commands answered.
    pub answers: Vec<Answer>,
}

impl Begin {
    pub(super) fn read(mut words: Words) -> Result<Self, Error> {
        match words.text()?.as_str() {
            "begun" => Ok(Self::Begun(Begun {
                status: Status::of(&words.next()?),
                created_at: words.number()?,
                expire_at: words.number()?,
                timeout: Duration::from_millis(words.number()?),
                answers: answers(words)?,
            })),
            "different" => Ok(Self::Different),
            "refused" => Ok(Self::Refused(Refusal::read(&mut words)?)),
            _ => Err(words.unreadable()),
        }
    }
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// It is committed: now, or by an earlier call.
    Committed {
        /// When, in seconds of Unix time on the server's clock.
        at: u64,
    },
    /// It was compensated before: what it did has been undone.
    Compensated {
        /// When, in seconds of Unix time on the server's clock.
        at: u64,
    },
    /// Nothing was changed.
    Refused(Refusal),
    /// There is no such record: it was never begun, or settled and removed.
    Absent,
}

impl Commit {
    pub(super) fn read(mut words: Words) -> Result<Self, Error> {
        match words.text()?.as_str() {
            "committed" => Ok(Self::Committed { at: words.number()? }),
            "compensated" => Ok(Self::Compensated { at: words.number()? }),
            "refused" => Ok(Self::Refused(Refusal::read(&mut words)?)),
            "absent" => Ok(Self::Absent),
            _ => Err(words.unreadable()),
        }
    }
}

/// What became of a compensation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compensate {
    /// It is undone: now, or by an earlier call.
    Compensated {
        /// When, in seconds of Unix time on the server's clock.
        at: u64,
        /// What the commands of the rollback answered. Empty if another program undid it.
        answers: Vec<Answer>,
    },
    /// It was committed before, and is never undone.
    Committed {
        /// When, in seconds of Unix time on the server's clock.
        at: u64,
    },
    /// Nothing was changed; it is still pending.
    Refused(Refusal),
    /// There is no such record: it was never begun, or settled and removed.
    Absent,
}

impl Compensate {
    /// `None`: another program changed the record, and it must be looked at again.
    pub(super) fn read(mut words: Words) -> Result<Option<Self>, Error> {
        Ok(Some(match words.text()?.as_str() {
            "compensated" => Self::Compensated { at: words.number()?, answers: answers(words)? },
            "committed" => Self::Committed { at: words.number()? },
            "refused" => Self::Refused(Refusal::read(&mut words)?),
            "absent" => Self::Absent,
            "foreign" => return Ok(None),
            _ => return Err(words.unreadable()),
        }))
    }
}

fn answers(mut words: Words) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::new();
    while !words.is_empty() {
        let word = words.next()?;
        answers.push(answer(&word).ok_or_else(|| words.unreadable())?);
    }
    Ok(answers)
}

/// Reads an answer behind its sign.
pub(super) fn answer(word: &[u8]) -> Option<Answer> {
    match word.split_first()? {
        (b'+', _) => Some(Answer::Ok),
        (b':', number) => std::str::from_utf8(number).ok()?.parse().ok().map(Answer::Integer),
        (b'$', bytes) => Some(Answer::Bytes(bytes.to_vec())),
        (b'_', _) => Some(Answer::Nothing),
        _ => None,
    }
}
