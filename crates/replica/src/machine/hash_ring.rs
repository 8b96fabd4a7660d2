//! State hashes at recent indexes, so that members at different indexes can still compare.

use crate::limits::{HASH_RING_MAX, SPARSE_HASH_STEP, SPARSE_HASHES_MAX};
use std::collections::VecDeque;

/// State hashes by index: for the last [`HASH_RING_MAX`] indexes, and for some earlier ones.
#[derive(Debug, Default)]
pub(crate) struct HashRing {
    /// Index of the first hash.
    first: u64,
    hashes: VecDeque<u128>,
    /// Hashes of multiples of [`SPARSE_HASH_STEP`], oldest first.
    sparse: VecDeque<(u64, u128)>,
}

impl HashRing {
    /// Adds the hash at the next index; any other index restarts the ring.
    pub(crate) fn push(&mut self, index: u64, hash: u128) {
        if index != self.first + self.hashes.len() as u64 {
            self.first = index;
            self.hashes.clear();
            self.sparse.clear();
        }
        if self.hashes.len() == HASH_RING_MAX {
            self.hashes.pop_front();
            self.first += 1;
        }
        self.hashes.push_back(hash);
        if index.is_multiple_of(SPARSE_HASH_STEP) {
            if self.sparse.len() == SPARSE_HASHES_MAX {
                self.sparse.pop_front();
            }
            self.sparse.push_back((index, hash));
        }
    }

    pub(crate) fn get(&self, index: u64) -> Option<u128> {
        let slot = index.checked_sub(self.first).and_then(|slot| usize::try_from(slot).ok());
        slot.and_then(|slot| self.hashes.get(slot).copied()).or_else(|| {
            let slot = self.sparse.binary_search_by_key(&index, |&(index, _)| index).ok()?;
            Some(self.sparse[slot].1)
        })
    }

    /// The newest kept hash at or before `index`, with its own index.
    pub(crate) fn last_up_to(&self, index: u64) -> Option<(u64, u128)> {
        let sparse = index - index % SPARSE_HASH_STEP;
        [index, sparse].into_iter().find_map(|index| Some((index, self.get(index)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_indexes() {
        let mut ring = HashRing::default();
        for index in 5..5 + HASH_RING_MAX as u64 + 3 {
            ring.push(index, u128::from(index));
        }
        assert_eq!(ring.get(7), None);
        assert_eq!(ring.get(8), Some(8));
        assert_eq!(ring.get(7 + HASH_RING_MAX as u64), Some(7 + HASH_RING_MAX as u128));
        assert_eq!(ring.get(8 + HASH_RING_MAX as u64), None);
        ring.push(3, 30);
        assert_eq!((ring.get(3), ring.get(8)), (Some(30), None));
    }

    #[test]
    fn hash_ring_keeps_a_sample_of_older_indexes() {
        let mut ring = HashRing::default();
        let last = SPARSE_HASH_STEP * (SPARSE_HASHES_MAX as u64 + 5);
        (1..=last).for_each(|index| ring.push(index, u128::from(index)));
        let step = SPARSE_HASH_STEP;
        assert_eq!((ring.get(step * 6), ring.get(step * 6 + 1)), (Some(u128::from(step * 6)), None));
        assert_eq!(ring.get(step * 5), None);
        assert_eq!(ring.last_up_to(step * 9 - 1), Some((step * 8, u128::from(step * 8))));
        assert_eq!(ring.last_up_to(last - 1), Some((last - 1, u128::from(last - 1))));
        assert_eq!(ring.last_up_to(step * 5), None);
        ring.push(7, 0);
        assert_eq!(ring.get(step * 6), None, "a replaced state must have no hash");
    }
}
