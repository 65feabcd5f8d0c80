//! What must hold of every run. One checker, one invariant, one file; each has a planted bug that it must catch.

use std::fmt;

use crate::event::Event;
use crate::sabotage::Sabotage;
use crate::truth::Truth;

mod acknowledged;
mod attempts;
mod belief;
mod budget;
mod claims;
mod compensated;
mod completed;
mod contradiction;
mod guess;
mod identity;
mod journal;
mod liveness;
mod once;
mod owner;
mod panics;
mod people;
mod persist;
mod pivot;
mod reports;
mod retention;
mod terminal;
mod undo_order;
mod views;
mod writer;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant is broken.
    pub invariant: &'static str,
    /// How, in plain words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Watches one invariant. It sees each event twice: with the truth as of before it, and as of after it.
pub(crate) trait Checker: Send {
    /// Before the truth has learned of the event.
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let _ = (event, truth, found);
    }

    /// After the truth has learned of the event.
    fn after(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        let _ = (event, truth, found);
    }
}

/// All checkers. `sabotage`: one of them holds sagas against another policy than the one that is registered.
pub(crate) fn checkers(sabotage: Option<Sabotage>) -> Vec<Box<dyn Checker>> {
    let stricter = sabotage == Some(Sabotage::StricterPolicy);
    vec![
        Box::new(completed::Completed),
        Box::new(compensated::Compensated),
        Box::new(once::Once),
        Box::new(guess::Guess),
        Box::new(undo_order::UndoOrder),
        Box::new(pivot::Pivot),
        Box::new(terminal::Terminal::default()),
        Box::new(journal::Journal),
        Box::new(views::Views),
        Box::new(acknowledged::Acknowledged::default()),
        Box::new(identity::Identity::default()),
        Box::new(people::People::default()),
        Box::new(claims::Claims),
        Box::new(owner::Owner),
        Box::new(writer::Writer),
        Box::new(persist::Persist),
        Box::new(attempts::Attempts::default()),
        Box::new(budget::Budget { stricter }),
        Box::new(belief::Belief),
        Box::new(contradiction::Contradiction),
        Box::new(retention::Retention),
        Box::new(reports::Reports::default()),
        Box::new(liveness::Liveness),
        Box::new(panics::Panics),
    ]
}

/// Says that an invariant is broken.
fn violated(found: &mut Vec<Violation>, invariant: &'static str, what: String) {
    found.push(Violation { invariant, what });
}
