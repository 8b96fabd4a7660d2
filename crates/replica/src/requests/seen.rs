//! Which forwarded commands arrived before. Each is accepted once, even if its frame is repeated.
//!
//! A connection repeats nothing, but a repeated frame could do great harm: a zone that was removed and created again
//! would be removed again. A peer numbers its attempts consecutively, from a start that depends on its process (the
//! boot id). A window over the latest numbers tells new from old.

use crate::io::NodeId;
use crate::limits::{FORWARDS_SEEN_MAX, FORWARDS_SEEN_PEERS_MAX};
use std::collections::BTreeMap;

/// Numbers further apart than this are of two processes: each starts at a random number.
const OF_ONE_PROCESS: u64 = 1 << 40;
const WORD_BITS: u64 = 64;

/// The numbers seen from each peer.
#[derive(Debug, Default)]
pub(crate) struct SeenForwards(BTreeMap<NodeId, Window>);

/// A window of numbers up to `highest`. The bit of each number seen is set, at the number modulo the length.
#[derive(Debug)]
struct Window {
    highest: u64,
    received: Box<[u64]>,
}

impl SeenForwards {
    /// Whether this peer's number is new. A number before the window counts as seen: an ignored frame is like a lost
    /// one.
    pub(crate) fn is_first(&mut self, from: NodeId, number: u64) -> bool {
        let has_room = self.0.len() < FORWARDS_SEEN_PEERS_MAX;
        match self.0.get_mut(&from) {
            Some(window) if window.is_of_same_process(number) => window.is_first(number),
            None if !has_room => false,
            _ => {
                self.0.insert(from, Window::begins_with(number));
                true
            }
        }
    }

    /// Forgets peers that are not members.
    pub(crate) fn retain(&mut self, is_member: impl Fn(NodeId) -> bool) {
        self.0.retain(|&id, _| is_member(id));
    }
}

impl Window {
    fn begins_with(number: u64) -> Self {
        // Attempts before this number may still be on their way.
        let mut window =
            Self { highest: number, received: vec![0; FORWARDS_SEEN_MAX / WORD_BITS as usize].into_boxed_slice() };
        window.mark(number);
        window
    }

    const fn is_of_same_process(&self, number: u64) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        ahead < OF_ONE_PROCESS || ahead > OF_ONE_PROCESS.wrapping_neg()
    }

    fn is_first(&mut self, number: u64) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        if ahead == 0 {
            return false;
        }
        if ahead < OF_ONE_PROCESS {
            // Numbers that enter the window use the bits of numbers that leave it.
            if ahead >= FORWARDS_SEEN_MAX as u64 {
                self.received.fill(0);
            } else {
                (1..ahead).for_each(|step| self.clear(self.highest.wrapping_add(step)));
            }
            self.highest = number;
            self.mark(number);
            return true;
        }
        let back = self.highest.wrapping_sub(number);
        if back >= FORWARDS_SEEN_MAX as u64 || self.received[Self::bit_of(number).0] & Self::bit_of(number).1 != 0 {
            return false;
        }
        self.mark(number);
        true
    }

    const fn bit_of(number: u64) -> (usize, u64) {
        let bit = number % FORWARDS_SEEN_MAX as u64;
        ((bit / WORD_BITS) as usize, 1 << (bit % WORD_BITS))
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = Self::bit_of(number);
        self.received[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::bit_of(number);
        self.received[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_is_first_once_in_any_order() {
        let mut seen = SeenForwards::default();
        for number in [10, 12, 11, 13, u64::from(u32::MAX)] {
            assert!(seen.is_first(1, number), "{number}");
        }
        for number in [10, 11, 12, 13, u64::from(u32::MAX)] {
            assert!(!seen.is_first(1, number), "{number}");
            assert!(!seen.is_first(1, u64::from(u32::MAX)));
        }
        assert!(seen.is_first(2, 10), "of another peer");
    }

    #[test]
    fn number_older_than_the_window_is_rejected() {
        let mut seen = SeenForwards::default();
        let newest = 1_000_000;
        assert!(seen.is_first(1, newest));
        assert!(!seen.is_first(1, newest - FORWARDS_SEEN_MAX as u64));
        assert!(seen.is_first(1, newest - FORWARDS_SEEN_MAX as u64 + 1));
    }

    #[test]
    fn restarted_sender_may_start_at_any_number_and_wrap() {
        let mut seen = SeenForwards::default();
        for number in [u64::MAX - 1, u64::MAX, 0, 1, 1 << 63, 1 << 50] {
            assert!(seen.is_first(1, number), "{number}");
        }
        assert!(!seen.is_first(1, 1 << 50));
        seen.retain(|id| id != 1);
        assert!(seen.0.is_empty());
    }

    proptest! {
        #[test]
        fn no_forward_counts_twice(numbers in proptest::collection::vec(0u64..3 * FORWARDS_SEEN_MAX as u64, 0..400)) {
            let (mut seen, mut taken) = (SeenForwards::default(), BTreeSet::new());
            let mut highest = 0;
            for number in numbers {
                let is_in_window = number + FORWARDS_SEEN_MAX as u64 > highest;
                highest = highest.max(number);
                if seen.is_first(1, number) {
                    prop_assert!(taken.insert(number), "{} was taken twice", number);
                } else {
                    prop_assert!(!is_in_window || taken.contains(&number), "{} was new", number);
                }
            }
        }
    }
}
