//! What raft reads: the tail of the log in memory. Apply and replication never wait for the disk; a follower
//! that needs more than the tail gets a checkpoint.

use ::raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use ::raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The tail of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    entries: VecDeque<Entry>,
    /// Octets of `entries`.
    octets: usize,
    /// Index and term just before the first entry.
    base: (u64, u64),
    hard_state: HardState,
    /// Used at start only; raft keeps the current one.
    conf_state: ConfState,
    /// What the newest checkpoint offers to a member that lags, set by the owner.
    offer: RefCell<Option<Snapshot>>,
    /// Who asked for a checkpoint, and from which index on it is of use; read and reset by the owner.
    wanted: Cell<Option<(u64, u64)>>,
}

/// Octets that an entry stands for in limits.
fn entry_octets(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + 64
}

impl Tail {
    /// The log as it was read from disk.
    pub(crate) fn new(base: (u64, u64), entries: Vec<Entry>, hard_state: HardState, conf_state: ConfState) -> Self {
        let mut tail = Self {
            entries: VecDeque::new(),
            octets: 0,
            base,
            hard_state,
            conf_state,
            offer: RefCell::new(None),
            wanted: Cell::new(None),
        };
        tail.append(&entries);
        tail
    }

    pub(crate) const fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    pub(crate) fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    pub(crate) fn set_commit(&mut self, commit: u64) {
        self.hard_state.commit = commit;
    }

    pub(crate) const fn octets(&self) -> usize {
        self.octets
    }

    pub(crate) const fn base(&self) -> (u64, u64) {
        self.base
    }

    pub(crate) fn last(&self) -> u64 {
        self.base.0 + self.entries.len() as u64
    }

    /// Appends, in place of whatever stands at these indexes and after them.
    ///
    /// # Panics
    /// When raft leaves a gap, or goes back behind the tail: both would be loss.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.base.0 && first.index <= self.last() + 1, "the log has no gaps");
        while self.last() >= first.index {
            if let Some(entry) = self.entries.pop_back() {
                self.octets -= entry_octets(&entry);
            }
        }
        for entry in entries {
            debug_assert_eq!(entry.index, self.last() + 1);
            self.octets += entry_octets(entry);
            self.entries.push_back(entry.clone());
        }
    }

    /// Drops entries from the front until at most `octets_max` are left, never beyond `index_max`.
    pub(crate) fn trim(&mut self, index_max: u64, octets_max: usize) {
        while self.octets > octets_max && self.entries.front().is_some_and(|entry| entry.index <= index_max) {
            if let Some(entry) = self.entries.pop_front() {
                self.octets -= entry_octets(&entry);
                self.base = (entry.index, entry.term);
            }
        }
    }

    /// Drops entries from the front up to `index`, whatever their size.
    pub(crate) fn trim_to(&mut self, index: u64) {
        self.trim(index, 0);
    }

    /// Begins anew behind a checkpoint.
    pub(crate) fn reset(&mut self, base: (u64, u64), conf_state: ConfState) {
        self.entries.clear();
        self.octets = 0;
        self.base = base;
        self.conf_state = conf_state;
    }

    pub(crate) fn entry(&self, index: u64) -> Option<&Entry> {
        let place = index.checked_sub(self.base.0 + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    pub(crate) fn set_offer(&self, offer: Option<Snapshot>) {
        *self.offer.borrow_mut() = offer;
    }

    pub(crate) fn take_wanted(&self) -> Option<(u64, u64)> {
        self.wanted.take()
    }
}

impl Storage for Tail {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.conf_state.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        if high > self.last() + 1 {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let max = max_size.into().unwrap_or(u64::MAX);
        let mut entries = Vec::new();
        let mut octets = 0u64;
        // At least one, then as many as fit.
        for index in low..high {
            let Some(entry) = self.entry(index) else { break };
            octets += entry_octets(entry) as u64;
            if !entries.is_empty() && octets > max {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.0 {
            return Ok(self.base.1);
        }
        if index < self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        self.entry(index).map(|entry| entry.term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        // A checkpoint that ends before the tail begins would leave a gap.
        let needed = request_index.max(self.base.0);
        let offer = self.offer.borrow();
        match offer.as_ref() {
            Some(snapshot) if snapshot.get_metadata().index >= needed => Ok(snapshot.clone()),
            _ => {
                self.wanted.set(Some((to, needed)));
                Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, ..Entry::default() }
    }

    fn tail() -> Tail {
        let entries = (6..=10).map(|index| entry(index, 2)).collect();
        Tail::new((5, 1), entries, HardState::default(), ConfState::default())
    }

    fn range(tail: &Tail, low: u64, high: u64, max: u64) -> raft::Result<Vec<u64>> {
        let entries = tail.entries(low, high, max, GetEntriesContext::empty(false))?;
        Ok(entries.iter().map(|entry| entry.index).collect())
    }

    #[test]
    fn keeps_term_of_what_was_before_it() {
        let mut tail = tail();
        assert_eq!(tail.term(5), Ok(1));
        assert_eq!(tail.term(4), Err(Error::Store(StorageError::Compacted)));
        assert_eq!(tail.term(11), Err(Error::Store(StorageError::Unavailable)));
        tail.trim_to(7);
        assert_eq!((tail.first_index(), tail.last_index(), tail.term(7)), (Ok(8), Ok(10), Ok(2)));
        assert_eq!(tail.octets(), 3 * 64);
    }

    #[test]
    fn conflicting_entries_take_the_place_of_the_old() {
        let mut tail = tail();
        tail.append(&[entry(8, 3), entry(9, 3)]);
        assert_eq!((tail.last(), tail.term(7), tail.term(8)), (9, Ok(2), Ok(3)));
        assert_eq!(tail.octets(), 4 * 64);
    }

    #[test]
    #[should_panic(expected = "no gaps")]
    fn gaps_are_never_stored() {
        tail().append(&[entry(12, 3)]);
    }

    #[test]
    fn entries_are_cut_to_size_but_never_to_none() {
        assert_eq!(range(&tail(), 6, 11, 0), Ok(vec![6]));
        assert_eq!(range(&tail(), 6, 11, 130), Ok(vec![6, 7]));
        assert_eq!(range(&tail(), 5, 11, 0), Err(Error::Store(StorageError::Compacted)));
    }

    #[test]
    fn a_checkpoint_is_offered_only_where_the_tail_goes_on() {
        let mut tail = tail();
        assert!(tail.snapshot(0, 3).is_err());
        assert_eq!(tail.take_wanted(), Some((3, 5)));
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = 6;
        tail.set_offer(Some(snapshot));
        assert!(tail.snapshot(0, 3).is_ok());
        tail.trim_to(7);
        assert!(tail.snapshot(0, 3).is_err());
        assert_eq!(tail.take_wanted(), Some((3, 7)));
        assert_eq!(tail.take_wanted(), None);
    }
}
