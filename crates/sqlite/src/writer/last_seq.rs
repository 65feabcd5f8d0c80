//! Which entry is the last of the sagas in flight.
//!
//! With it an entry is appended without looking anything up. The engine is alone on its file, and this thread alone
//! writes to it: what it remembers is true.

use std::collections::HashMap;

/// Sagas of one generation; two are kept, about 2 MiB.
const GENERATION_MAX: usize = 32_768;

/// Remembers the sagas used last, in two generations: one that is being filled, and the one before.
#[derive(Debug, Default)]
pub(crate) struct LastSeqs {
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
}

impl LastSeqs {
    pub(crate) fn get(&self, rowid: u64) -> Option<u64> {
        self.young.get(&rowid).or_else(|| self.old.get(&rowid)).copied()
    }

    pub(crate) fn set(&mut self, rowid: u64, seq: u64) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(rowid, seq);
    }

    /// Forgets everything, because a transaction was undone.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_and_stays_bounded() {
        let mut seqs = LastSeqs::default();
        let many = 5 * GENERATION_MAX as u64;
        for rowid in 0..many {
            seqs.set(rowid, rowid + 1);
            assert!(seqs.young.len() + seqs.old.len() <= 2 * GENERATION_MAX);
        }
        assert_eq!(seqs.get(many - 1), Some(many));
        assert_eq!(seqs.get(0), None);
    }

    #[test]
    fn the_last_value_counts_across_generations() {
        let mut seqs = LastSeqs::default();
        seqs.set(7, 1);
        for rowid in 100..100 + GENERATION_MAX as u64 {
            seqs.set(rowid, 1);
        }
        seqs.set(7, 2);
        assert_eq!(seqs.get(7), Some(2));
    }
}
