//! Between the record of a call and what it came to.

use serde_json::Value;

use crate::{Answer, Key};

/// How a call begins.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// There is nothing to carry out: this is the answer. Commit the transaction all the same, for the answer may have been made just now.
    Answered(Answer),
    /// It is the first of its key: carry it out in this transaction, then give the ticket to `settle`.
    First(Ticket),
}

/// The right and the duty to carry out one operation.
///
/// Its record is inserted and is waited for by others. It ends with `settle` and a commit, or with a rollback. To commit without having settled it is the one
/// fault that cannot be mended here: the record says that it is not known whether the effect is there, and each call is answered so.
#[derive(Debug)]
#[must_use = "settle it, or roll the transaction back"]
pub struct Ticket {
    pub(crate) key: Key,
    /// Of a compensation: the key of the action.
    pub(crate) undoes: Option<Key>,
    pub(crate) fact: Value,
}

impl Ticket {
    /// The key that it was called under.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fact of the action that is to be undone, as it was answered; null in an action's own ticket.
    #[must_use]
    pub fn fact(&self) -> &Value {
        &self.fact
    }
}
