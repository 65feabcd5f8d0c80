//! What a test says that participants do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use amends_core::OpKind;

use super::Does;

/// Step, operation, and whether it is its query.
type Which = (String, OpKind, bool);

/// What happens to the calls of each operation, one after the other; then all works.
///
/// Clones share nothing: each run has the whole script before it.
#[derive(Debug, Default)]
pub(crate) struct Script {
    calls: BTreeMap<Which, Vec<Does>>,
    /// What happens once those are over, where it is not that all works.
    always: BTreeMap<Which, Does>,
    given: Arc<Mutex<BTreeMap<Which, usize>>>,
}

impl Clone for Script {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), always: self.always.clone(), given: Arc::default() }
    }
}

impl Script {
    /// The next calls of an operation, or of its query, do this.
    pub(crate) fn add(
        &mut self,
        step: &str,
        kind: OpKind,
        is_query: bool,
        does: impl IntoIterator<Item = Does>,
    ) {
        self.calls.entry((step.to_owned(), kind, is_query)).or_default().extend(does);
    }

    /// Every call of an operation does this, once what was said of its next ones is over.
    pub(crate) fn always(&mut self, step: &str, kind: OpKind, does: Does) {
        self.always.insert((step.to_owned(), kind, false), does);
    }

    pub(crate) fn next(&self, step: &str, kind: OpKind, is_query: bool) -> Does {
        let key = (step.to_owned(), kind, is_query);
        let last = self.always.get(&key).copied().unwrap_or(Does::Works);
        let Some(calls) = self.calls.get(&key) else { return last };
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let given = given.entry(key).or_default();
        let does = calls.get(*given).copied().unwrap_or(last);
        *given += 1;
        does
    }
}
