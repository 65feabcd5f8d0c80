//! A record as it stands.

use std::time::Duration;

use crate::client::Error;
use crate::commands::{Commands, Guard, unpack, unpack_words};

use super::outcome::answer;
use super::{Answer, BusinessId, Words};

/// Where a record stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Begun, neither committed nor undone.
    Pending,
    /// Done for good.
    Committed,
    /// Undone.
    Compensated,
    /// What another program wrote there.
    Other(String),
}

impl Status {
    pub(super) fn of(word: &[u8]) -> Self {
        match word {
            b"pending" => Self::Pending,
            b"committed" => Self::Committed,
            b"compensated" => Self::Compensated,
            other => Self::Other(other.escape_ascii().to_string().chars().take(80).collect()),
        }
    }

    /// Its word in the record.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Committed => "committed",
            Self::Compensated => "compensated",
            Self::Other(word) => word,
        }
    }
}

/// A record of the log. Times are seconds of Unix time on the server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its business id.
    pub id: BusinessId,
    /// Where it stands.
    pub status: Status,
    /// When it was begun.
    pub created_at: Option<u64>,
    /// When it becomes a dead letter if it is not settled.
    pub expire_at: Option<u64>,
    /// After how long a scanner undoes it.
    pub timeout: Option<Duration>,
    /// When it was committed or compensated.
    pub settled_at: Option<u64>,
    /// The commands that undo it.
    pub rollback: Commands,
    /// What must hold for that.
    pub guard: Vec<Guard>,
    /// What the forward commands answered.
    pub begun: Vec<Answer>,
    /// What the rollback answered.
    pub result: Vec<Answer>,
    /// How often scanners were refused.
    pub attempts: u64,
    /// Why the last one was.
    pub reason: Option<String>,
    /// Whether it waits for a person: scanners leave it alone.
    pub parked: bool,
    /// The rollback as another program wrote it.
    pub rollback_cmd: Option<Vec<u8>>,
    /// That text as it was when the record was adopted.
    adopted: Option<Vec<u8>>,
    is_own: bool,
    pub(super) keys: Vec<Vec<u8>>,
}

impl Record {
    /// Whether another program wrote it, or changed its rollback, and it has not been adopted since.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        !self.is_own || (self.rollback_cmd.is_some() && self.rollback_cmd != self.adopted)
    }

    pub(super) fn read(mut words: Words, id: &BusinessId) -> Result<Option<Self>, Error> {
        match words.text()?.as_str() {
            "absent" => return Ok(None),
            "record" => {}
            _ => return Err(words.unreadable()),
        }
        let mut record = Self {
            id: id.clone(),
            status: Status::Other(String::new()),
            created_at: None,
            expire_at: None,
            timeout: None,
            settled_at: None,
            rollback: Commands::default(),
            guard: Vec::new(),
            begun: Vec::new(),
            result: Vec::new(),
            attempts: 0,
            reason: None,
            parked: false,
            rollback_cmd: None,
            adopted: None,
            is_own: false,
            keys: Vec::new(),
        };
        while !words.is_empty() {
            let (name, value) = (words.text()?, words.next()?);
            record.set(&name, value).ok_or_else(|| words.unreadable())?;
        }
        Ok(Some(record))
    }

    fn set(&mut self, name: &str, value: Vec<u8>) -> Option<()> {
        let number = || std::str::from_utf8(&value).ok().and_then(|text| text.parse::<u64>().ok());
        match name {
            "format" => self.is_own = true,
            "status" => self.status = Status::of(&value),
            "created_at" => self.created_at = number(),
            "expire_at" => self.expire_at = number(),
            "timeout_ms" => self.timeout = number().map(Duration::from_millis),
            "committed_at" | "compensated_at" => self.settled_at = number(),
            "attempts" => self.attempts = number().unwrap_or(0),
            "parked" => self.parked = true,
            "reason" => self.reason = Some(String::from_utf8_lossy(&value).into_owned()),
            "rollback" => self.rollback = Commands::check(unpack(&value)?).ok()?,
            "guard" => {
                self.guard =
                    unpack(&value)?.iter().map(|words| Guard::new(words)).collect::<Result<_, _>>().ok()?;
            }
            "begun" => self.begun = answers(&value)?,
            "result" => self.result = answers(&value)?,
            "rollback_cmd" => self.rollback_cmd = Some(value),
            "adopted" => self.adopted = Some(value),
            "key" => self.keys.push(value),
            // What a later version adds.
            _ => {}
        }
        Some(())
    }
}

fn answers(bytes: &[u8]) -> Option<Vec<Answer>> {
    unpack_words(bytes)?.iter().map(|word| answer(word)).collect()
}
