//! A set of datagrams of a batch.

use crate::limits::UDP_BATCH_COUNT;

/// Indexes of datagrams, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct IndexSet(u64);

const _: () = assert!(UDP_BATCH_COUNT <= u64::BITS as usize, "a bit for each datagram");

impl IndexSet {
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[cfg(test)]
    pub(crate) const fn contains(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }

    pub(crate) const fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }
}

impl IntoIterator for IndexSet {
    type Item = usize;
    type IntoIter = Indexes;

    fn into_iter(self) -> Indexes {
        Indexes(self.0)
    }
}

/// The indexes of a set, in ascending order.
pub(crate) struct Indexes(u64);

impl Iterator for Indexes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let index = (self.0 != 0).then_some(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_come_in_ascending_order() {
        let mut set = IndexSet::default();
        assert!(set.is_empty() && set.into_iter().next().is_none());
        [63, 0, 7, 7].iter().for_each(|&index| set.insert(index));
        assert_eq!(set.into_iter().collect::<Vec<_>>(), [0, 7, 63]);
        assert!(!set.is_empty() && set.contains(63) && !set.contains(62));
    }
}
