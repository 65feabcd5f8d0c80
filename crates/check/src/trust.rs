//! What a saga relies on: each guarantee is dropped in turn, and the exploration repeated.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::guarantee::Declared;
use crate::report::Trust;
use crate::run::{Check, Told};

/// Explores the definition, and again without each guarantee, several at the same time.
pub(crate) fn explore(check: &Check<'_>) -> (Told, Vec<Trust>) {
    let declared = check.declared();
    let whole: OnceLock<Told> = OnceLock::new();
    let without: Mutex<Vec<Option<Without>>> = Mutex::new(declared.iter().map(|_| None).collect());
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            // The whole definition comes first: what it does not lean on need not be explored again.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(index) = at.checked_sub(1) else {
                let told = check.explore(None);
                check.limits.stop.store(told.unsafe_story.is_some(), Ordering::Relaxed);
                let _ = whole.set(told);
                continue;
            };
            let Some(dropped) = declared.get(index) else { break };
            let found = one(check, *dropped, whole.get());
            without.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..check.options.threads.clamp(1, declared.len() + 1) {
            scope.spawn(work);
        }
        work();
    });
    let whole = whole.into_inner().expect("invariant: the first piece of work explores the whole");
    if whole.unsafe_story.is_some() {
        return (whole, Vec::new());
    }
    let without = without.into_inner().unwrap_or_else(PoisonError::into_inner);
    let trust = declared
        .iter()
        .zip(without)
        .map(|(dropped, found)| judged(check.trust(*dropped), *dropped, found.flatten(), &whole))
        .collect();
    (whole, trust)
}

/// What came of dropping a guarantee; `None`: it was not explored, for it makes no difference.
type Without = Option<Told>;

fn one(check: &Check<'_>, dropped: Declared, whole: Option<&Told>) -> Without {
    let is_idle = |whole: &Told| {
        whole.is_finished && !whole.leant_on.contains(&(dropped.participant, dropped.guarantee))
    };
    if whole.is_some_and(is_idle) { None } else { Some(check.explore(Some(dropped))) }
}

/// A guarantee is needed if without it something unsafe happens, or a person is needed who was not before.
fn judged(trust: Trust, dropped: Declared, found: Without, whole: &Told) -> Trust {
    let Some(found) = found else { return Trust { needed: Some(false), ..trust } };
    let person = found.persons.into_iter().find(|(op, _)| whole.persons.iter().all(|(known, _)| known != op));
    let harm = found.unsafe_story.or(person.map(|(_, story)| story));
    let is_idle = whole.is_finished && !whole.leant_on.contains(&(dropped.participant, dropped.guarantee));
    match harm {
        Some(story) => Trust { needed: Some(true), story: story.lines, harm: story.harm, ..trust },
        None if found.is_finished || is_idle => Trust { needed: Some(false), ..trust },
        None => trust,
    }
}
