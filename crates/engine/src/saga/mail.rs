//! Mail: inputs from nodes that do not own the saga, as they are stored.

use amends_core::{Input, Problem};
use amends_store::{Error, Kind};
use serde::{Deserialize, Serialize};

use crate::Refused;

/// The answer to a mail, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MailAnswer {
    /// Done, or nothing had to be done.
    Done,
    /// Refused; nothing has changed.
    Refused {
        /// Which problem, as in the API's problem types.
        problem: String,
        /// Why.
        detail: String,
    },
}

impl MailAnswer {
    pub(crate) fn refused(problem: Problem, detail: impl Into<String>) -> Self {
        Self::Refused { problem: word(problem).to_owned(), detail: detail.into() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: an answer is plain data")
    }
}

/// Encodes an input for a mailbox.
pub(crate) fn encode_input(input: &Input) -> Vec<u8> {
    serde_json::to_vec(input).expect("invariant: an input is plain data")
}

/// Reads an input from a mailbox. Only what comes from outside can come through it: an answer to a call, or a tick, is nobody's
/// to post.
pub(super) fn decode_input(body: &[u8]) -> Result<Input, String> {
    match serde_json::from_slice(body) {
        Ok(input @ (Input::Evidence { .. } | Input::Person(_))) => Ok(input),
        Ok(
            Input::Tick
            | Input::TakeOver { .. }
            | Input::Lost { .. }
            | Input::Answered { .. }
            | Input::Held { .. }
            | Input::Asked { .. }
            | Input::Claimed { .. }
            | Input::Unfit { .. },
        ) => Err("only evidence and people's actions can be posted".to_owned()),
        Err(error) => Err(format!("this version cannot read it: {error}")),
    }
}

/// Reads the answer to a mail.
pub(crate) fn decode_answer(body: &[u8]) -> Result<(), Refused> {
    match serde_json::from_slice(body) {
        Ok(MailAnswer::Done) => Ok(()),
        Ok(MailAnswer::Refused { problem, detail }) => {
            match ALL.into_iter().find(|known| word(*known) == problem) {
                Some(problem) => Err(Refused::Core { problem, detail }),
                None => Err(Refused::Malformed(detail)),
            }
        }
        Err(error) => {
            let message =
                format!("the answer of the node that owns the saga cannot be read by this version: {error}");
            Err(Refused::Store(Error::new(Kind::Corrupt, message)))
        }
    }
}

const ALL: [Problem; 8] = [
    Problem::UnknownStep,
    Problem::WrongState,
    Problem::PastPivot,
    Problem::StaleVersion,
    Problem::VersionRequired,
    Problem::ReasonRequired,
    Problem::KeyExpired,
    Problem::Malformed,
];

fn word(problem: Problem) -> &'static str {
    match problem {
        Problem::UnknownStep => "unknown-step",
        Problem::WrongState => "wrong-state",
        Problem::PastPivot => "past-pivot",
        Problem::StaleVersion => "stale-version",
        Problem::VersionRequired => "version-required",
        Problem::ReasonRequired => "reason-required",
        Problem::KeyExpired => "key-expired",
        Problem::Malformed => "malformed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_comes_back_as_it_was_written() {
        for problem in ALL {
            let body = MailAnswer::refused(problem, "why").encode();
            let Err(Refused::Core { problem: read, detail }) = decode_answer(&body) else {
                panic!("{problem:?}")
            };
            assert_eq!((read, detail.as_str()), (problem, "why"));
        }
        assert!(decode_answer(&MailAnswer::Done.encode()).is_ok());
    }

    #[test]
    fn an_answer_to_a_call_cannot_be_posted() {
        assert!(decode_input(&encode_input(&Input::Tick)).is_err());
        assert!(decode_input(b"{").is_err());
    }
}
