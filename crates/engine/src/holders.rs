//! Who waits for whose claims (rule 13), as far as this node knows.
//!
//! It only makes a wait shorter: a saga that waits tries again by its timer, whatever is remembered here, and what was refused on another
//! node is not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use amends_core::SagaId;

use crate::node::Node;
use crate::saga::{Message, Opening, open};

/// How many are remembered: beyond, all are forgotten, and their timers do.
const WAITING_MAX: usize = 10_000;

/// How many are woken when a holder ends: it may have held several claims. If all of a crowd that waits for one claim tried, each end would
/// cost as much as the crowd is large.
const WOKEN_MAX: usize = 8;

/// Sagas that wait, by the saga that holds a claim of theirs, in the order in which they were refused.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    waiting: Mutex<BTreeMap<SagaId, VecDeque<SagaId>>>,
    /// As many as are in `waiting`, so that the end of a saga that nobody waits for takes no lock.
    count: AtomicUsize,
}

impl Holders {
    /// Remembers that `waiter` was refused because of `holder`.
    pub(crate) fn wait(&self, holder: &SagaId, waiter: &SagaId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.count.load(Ordering::SeqCst) >= WAITING_MAX {
            waiting.clear();
            self.count.store(0, Ordering::SeqCst);
        }
        let queue = waiting.entry(holder.clone()).or_default();
        if !queue.contains(waiter) {
            queue.push_back(waiter.clone());
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Forgets `holder`, and gives who is to try now. The others wait for the first of them, which will most likely be the next holder.
    fn released(&self, holder: &SagaId) -> Vec<SagaId> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut queue) = waiting.remove(holder) else { return Vec::new() };
        let woken: Vec<SagaId> = queue.drain(..queue.len().min(WOKEN_MAX)).collect();
        self.count.fetch_sub(woken.len(), Ordering::SeqCst);
        if let Some(first) = woken.first().filter(|_| !queue.is_empty()) {
            waiting.entry(first.clone()).or_default().extend(queue);
        }
        woken
    }
}

impl Node {
    /// A saga has ended, and its claims are free: those that wait for them try at once.
    pub(crate) fn claims_released(self: &Arc<Self>, holder: &SagaId) {
        for waiter in self.holders.released(holder) {
            match self.sagas.get(&waiter) {
                // A full inbox: its timer does.
                Some(cell) => drop(cell.tell(Message::ClaimsFree)),
                None => drop(open(self, &waiter, self.lease(), Opening::Woken)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SagaId {
        SagaId::new(text).unwrap()
    }

    #[test]
    fn the_first_are_woken_in_order_and_the_others_wait_for_the_first() {
        let holders = Holders::default();
        for n in 0..20 {
            for _ in 0..2 {
                holders.wait(&id("h"), &id(&format!("w{n:02}")));
            }
        }
        assert_eq!(holders.released(&id("nobody")), []);
        let first = holders.released(&id("h"));
        assert_eq!(first, (0..8).map(|n| id(&format!("w{n:02}"))).collect::<Vec<_>>());
        assert_eq!(holders.released(&id("h")), []);
        assert_eq!(holders.released(&id("w00")).len(), 8);
        assert_eq!(holders.released(&id("w08")).len(), 4);
        assert_eq!(holders.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let holders = Holders::default();
        for n in 0..=WAITING_MAX {
            holders.wait(&id(&format!("h{}", n % 7_000)), &id(&format!("w{n}")));
        }
        assert_eq!(holders.count.load(Ordering::SeqCst), 1);
    }
}
