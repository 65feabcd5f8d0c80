//! Where a record's indexes are: in its slot, so that one call writes both.

use std::sync::LazyLock;

use crate::client::{SLOTS, slot};

use super::BusinessId;

/// Which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// Pending records, by the time at which a scanner undoes them.
    Due,
    /// Pending records that need a person, by the time since when.
    Parked,
    /// Settled records, by the time at which they were settled.
    Settled,
}

/// A part of the log that has indexes of its own: all of it on one server, one slot in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard(Option<u16>);

impl Shard {
    fn of(id: &BusinessId, is_cluster: bool) -> Self {
        Self(is_cluster.then(|| slot(&id.record_key())))
    }

    /// The key of one of its indexes.
    pub(crate) fn key(self, index: Index) -> Vec<u8> {
        let name = match index {
            Index::Due => "compensate_due",
            Index::Parked => "compensate_parked",
            Index::Settled => "compensate_settled",
        };
        match self.0 {
            None => name.as_bytes().to_vec(),
            Some(slot) => format!("{name}:{{{}}}", TAGS[usize::from(slot)]).into_bytes(),
        }
    }
}

/// All shards.
pub(crate) fn shards(is_cluster: bool) -> Vec<Shard> {
    if is_cluster { (0..SLOTS).map(|slot| Shard(Some(slot))).collect() } else { vec![Shard(None)] }
}

/// The keys that every function takes first: the record and the three indexes.
pub(super) fn of(id: &BusinessId, is_cluster: bool) -> [Vec<u8>; 4] {
    let shard = Shard::of(id, is_cluster);
    [id.record_key(), shard.key(Index::Due), shard.key(Index::Parked), shard.key(Index::Settled)]
}

/// A hash tag for each slot: the least number that is in it. Every program finds the same.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; usize::from(SLOTS)];
    let mut missing = tags.len();
    for number in 0.. {
        let tag = &mut tags[usize::from(slot(number.to_string().as_bytes()))];
        if tag.is_none() {
            *tag = Some(number);
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    tags.into_iter().flatten().collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_and_indexes_share_a_slot_whatever_braces_the_id_has() {
        for id in ["order:789", "{1001}:order", "a{}b", "}{", "{{x}}", "{", "a b\n\0", "order:{a}{b}"] {
            let keys = of(&BusinessId::new(id).unwrap(), true);
            assert!(keys.iter().all(|key| slot(key) == slot(&keys[0])), "{id}");
        }
        assert_eq!(TAGS.len(), usize::from(SLOTS));
        assert_eq!(of(&BusinessId::new("x").unwrap(), false)[1], b"compensate_due");
    }
}
