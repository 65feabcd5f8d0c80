//! `decide`: what an input leads to. Pure: (saga, input, now) → entries + effects.
//!
//! A decision is built on a copy of the saga: each entry is applied as it is made, so that what follows is decided on
//! the state it will be in, and everything an input leads to is committed together.

mod answered;
mod asked;
mod dues;
mod evidence;
mod follow;
mod lost;
mod next;
mod person;
mod refusal;
mod take_over;
mod uses;

use std::sync::Arc;

pub use refusal::{Problem, Refusal};

use crate::apply::{apply, begin};
use crate::definition::Definition;
use crate::effect::{Effect, wanted};
use crate::input::{Now, Submission};
use crate::{Entry, EntryKind, Input, OpRef, Saga};

/// What an input leads to.
#[derive(Debug, Clone)]
pub struct Decision {
    /// To be committed, all or none, before any effect runs. May be empty.
    pub entries: Vec<Entry>,
    /// The saga with the entries applied.
    pub after: Saga,
    /// Everything the saga wants done then, calls that are under way already included ([`crate::CallId`] tells).
    pub effects: Vec<Effect>,
}

/// Begins a saga: the entries of its submission, and the calls they allow.
///
/// `claims` are the definition's, rendered with the input ([`crate::definition::check_input`]).
///
/// # Panics
/// Never: the first entry is made for this definition.
#[must_use]
pub fn submit(
    definition: Arc<Definition>,
    submission: Submission,
    claims: Vec<String>,
    now: Now,
) -> Decision {
    let deadline_at = definition.deadline_ms.map(|ms| now.at.plus_ms(ms));
    let kind = EntryKind::Submitted {
        id: submission.id,
        digest: definition.digest.clone(),
        input: submission.input,
        claims,
        deadline_at,
        accepting: submission.accepting,
        trace: submission.trace,
        epoch: submission.epoch,
        who: submission.who,
    };
    let entry = Entry { seq: 1, at: now.at, kind };
    let saga = begin(definition, &entry).expect("a submission is a first entry pinned to its own definition");
    let mut deciding = Deciding { saga, entries: vec![entry], now };
    deciding.follow(true);
    deciding.finish()
}

/// Decides what an input leads to. Deciding the same input again on the resulting saga is harmless.
///
/// # Errors
/// Only what people ask for can be refused; nothing has changed then.
pub fn decide(saga: &Saga, input: &Input, now: Now) -> Result<Decision, Refusal> {
    let mut deciding = Deciding { saga: saga.clone(), entries: Vec::new(), now };
    let mut dues = true;
    match input {
        Input::Tick => {}
        Input::TakeOver { epoch, lapsed } => {
            // What is due waits for the next tick: it must not hide that nothing happened between two take-overs.
            dues = false;
            deciding.take_over(*epoch, *lapsed);
        }
        Input::Lost { loss } => deciding.lost(*loss),
        Input::Answered { op, attempt, outcome, took_ms } => {
            deciding.answered(*op, *attempt, outcome, *took_ms)
        }
        Input::Held { op, attempt, reason, retry_in_ms } => {
            deciding.held(*op, *attempt, reason, *retry_in_ms)
        }
        Input::Asked { op, n, outcome } => deciding.asked(*op, *n, outcome),
        Input::Evidence { op, generation, evidence, source } => {
            deciding.evidence(*op, *generation, evidence, source)
        }
        Input::Claimed { held_by } => deciding.claimed(held_by.as_deref()),
        Input::Unfit { reason } => deciding.unfit(reason),
        Input::Person(person) => deciding.person(person)?,
    }
    deciding.follow(dues);
    Ok(deciding.finish())
}

/// A decision in the making.
struct Deciding {
    saga: Saga,
    entries: Vec<Entry>,
    now: Now,
}

impl Deciding {
    /// Adds an entry and applies it.
    fn push(&mut self, kind: EntryKind) {
        let entry = Entry { seq: self.saga.seq + 1, at: self.now.at, kind };
        apply(&mut self.saga, &entry).expect("the core makes entries that follow its own state");
        self.entries.push(entry);
    }

    fn finish(self) -> Decision {
        let effects = wanted(&self.saga, self.now.at);
        Decision { entries: self.entries, after: self.saga, effects }
    }

    /// Whether nothing about this operation can move any more.
    fn is_over(&self, op: OpRef) -> bool {
        self.saga.ended.is_some() || self.saga.steps[op.step].undone
    }
}
