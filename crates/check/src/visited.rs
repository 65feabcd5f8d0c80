//! Which states have been met, and how they were reached.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::state::Fingerprint;

/// Where a state was reached from.
#[derive(Debug, Clone, Copy)]
struct Node {
    fingerprint: Fingerprint,
    /// Index of the state before it; its own for a first one.
    parent: u32,
}

/// Which states have been met, with how few faults, and how they were reached.
///
/// A state met again with as many faults as before or more has nothing new to tell: whatever can follow could follow then.
#[derive(Default)]
pub(crate) struct Visited {
    faults: HashMap<Fingerprint, u8, BuildHasherDefault<FirstHalf>>,
    nodes: Vec<Node>,
}

impl Visited {
    /// Notes that a state was reached; its number if that is news.
    pub(crate) fn reach(&mut self, fingerprint: Fingerprint, faults: u8, parent: Option<u32>) -> Option<u32> {
        match self.faults.entry(fingerprint) {
            std::collections::hash_map::Entry::Occupied(mut met) if *met.get() > faults => {
                met.insert(faults);
            }
            std::collections::hash_map::Entry::Occupied(_) => return None,
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(faults);
            }
        }
        let number = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(Node { fingerprint, parent: parent.unwrap_or(number) });
        Some(number)
    }

    /// How many different states have been met.
    pub(crate) fn len(&self) -> usize {
        self.faults.len()
    }

    /// The fingerprints of the states from a first one to this.
    pub(crate) fn path(&self, number: u32) -> Vec<Fingerprint> {
        let mut path = Vec::new();
        let mut at = number;
        loop {
            let node = self.nodes[at as usize];
            path.push(node.fingerprint);
            if node.parent == at {
                break;
            }
            at = node.parent;
        }
        path.reverse();
        path
    }
}

/// A fingerprint is a hash already: its first half will do.
#[derive(Default)]
struct FirstHalf(u64);

impl Hasher for FirstHalf {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, half: u64) {
        if self.0 == 0 {
            self.0 = half;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_met_again_is_news_only_with_fewer_faults() {
        let mut visited = Visited::default();
        let (a, b) = ((1, 2), (1, 3));
        let first = visited.reach(a, 2, None);
        assert!(first.is_some());
        assert_eq!(visited.reach(a, 2, first), None);
        assert_eq!(visited.reach(a, 3, first), None);
        let second = visited.reach(b, 1, first).expect("another state is news");
        let again = visited.reach(a, 1, Some(second)).expect("with fewer faults it is news");
        assert_eq!(visited.len(), 2);
        assert_eq!(visited.path(again), [a, b, a]);
    }
}
