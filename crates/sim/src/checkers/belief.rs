//! What a journal says of an operation is true: what it says is done has happened; what it says is refused or sealed has not, and
//! never does.

use amends_core::{Knowledge, Saga};
use amends_store::Advanced;
use serde_json::Value;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "belief";

/// Compares journals with ledgers.
pub(super) struct Belief;

impl Checker for Belief {
    fn after(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Advanced { advance, outcome: Advanced::Committed, .. } => {
                if let Some(recorded) = truth.sagas.get(&advance.id) {
                    compare(&recorded.saga, truth, found);
                }
            }
            Event::Over => truth.sagas.values().for_each(|recorded| compare(&recorded.saga, truth, found)),
            _ => {}
        }
    }
}

fn compare(saga: &Saga, truth: &Truth, found: &mut Vec<Violation>) {
    for op in saga.ops() {
        let state = saga.op(op);
        let key = saga.key(op);
        // A fence that had nothing to undo says so.
        let nothing_undone = |fact: &Value| fact.get("undone") == Some(&Value::Bool(false));
        let happened = match state.knowledge() {
            Knowledge::Unsent | Knowledge::Possible => continue,
            Knowledge::Done => !state.fact().is_some_and(|(fact, _)| nothing_undone(fact)),
            Knowledge::Rejected | Knowledge::Sealed => false,
        };
        let count = truth.ledger.under(key.as_str());
        if happened != (count > 0) {
            let (key, knowledge) = (key.as_str(), state.knowledge());
            violated(found, NAME, format!("{key} is {knowledge:?}, but happened {count} times"));
        }
    }
}
