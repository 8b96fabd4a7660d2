//! State hashes of the last indexes, so that members which are not at the same index can still compare.

use crate::limits::HASH_RING_MAX;
use std::collections::VecDeque;

/// Hash by index, for the last [`HASH_RING_MAX`] indexes.
#[derive(Debug, Default)]
pub(crate) struct HashRing {
    /// Index of the first hash.
    first: u64,
    hashes: VecDeque<u128>,
}

impl HashRing {
    /// Notes the hash at the next index; another index than the next begins anew.
    pub(crate) fn push(&mut self, index: u64, hash: u128) {
        if index != self.first + self.hashes.len() as u64 {
            self.first = index;
            self.hashes.clear();
        }
        if self.hashes.len() == HASH_RING_MAX {
            self.hashes.pop_front();
            self.first += 1;
        }
        self.hashes.push_back(hash);
    }

    pub(crate) fn get(&self, index: u64) -> Option<u128> {
        let place = index.checked_sub(self.first)?;
        self.hashes.get(usize::try_from(place).ok()?).copied()
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
}
