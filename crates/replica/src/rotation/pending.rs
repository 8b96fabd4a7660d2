//! Known outcomes of updates, held back until all live members show the update.

use crate::io::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// Those outcomes, ordered by index.
#[derive(Debug, Default)]
pub(crate) struct PendingOutcomes {
    /// By the index that all members must show, and a number.
    verdicts: BTreeMap<(u64, u64), (u64, Verdict, u64)>,
    /// The same outcomes by deadline.
    deadlines: BTreeSet<(u64, (u64, u64))>,
    next_number: u64,
}

impl PendingOutcomes {
    pub(crate) fn len(&self) -> usize {
        self.verdicts.len()
    }

    pub(super) fn put(&mut self, index: u64, request_id: u64, verdict: Verdict, deadline_ms: u64) {
        let key = (index, self.next_number);
        self.next_number += 1;
        self.verdicts.insert(key, (request_id, verdict, deadline_ms));
        self.deadlines.insert((deadline_ms, key));
    }

    /// All members show everything up to this index. Returns the outcomes to report.
    pub(super) fn release(&mut self, index: u64) -> Vec<(u64, Verdict)> {
        let later = self.verdicts.split_off(&(index + 1, 0));
        let done = core::mem::replace(&mut self.verdicts, later);
        for (&key, &(_, _, deadline_ms)) in &done {
            self.deadlines.remove(&(deadline_ms, key));
        }
        done.into_values().map(|(request_id, verdict, _)| (request_id, verdict)).collect()
    }

    /// Removes and returns the outcomes past their deadline.
    pub(super) fn expired(&mut self, now_ms: u64) -> Vec<u64> {
        let later = self.deadlines.split_off(&(now_ms + 1, (0, 0)));
        let expired = core::mem::replace(&mut self.deadlines, later);
        let verdict_of = |(_, key): (u64, (u64, u64))| self.verdicts.remove(&key);
        expired.into_iter().filter_map(verdict_of).map(|(request_id, _, _)| request_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::number::Rcode;

    #[test]
    fn pending_outcomes_are_released_by_index_and_expire_by_deadline() {
        let verdict = Verdict::Answer(Rcode::NOERROR);
        let mut pending = PendingOutcomes::default();
        for (index, request, deadline) in [(5, 1, 30), (4, 2, 20), (5, 3, 20), (6, 4, 10), (7, 5, 40)] {
            pending.put(index, request, verdict, deadline);
        }
        assert_eq!(pending.release(3), []);
        assert_eq!(pending.expired(9), []);
        assert_eq!(pending.release(4), [(2, verdict)]);
        assert_eq!(pending.expired(20), [4, 3]);
        assert_eq!(pending.release(6), [(1, verdict)]);
        assert_eq!((pending.len(), pending.deadlines.len()), (1, 1));
        assert_eq!(pending.release(u64::MAX - 1), [(5, verdict)]);
        assert_eq!((pending.len(), pending.deadlines.len()), (0, 0));
        assert_eq!(pending.expired(u64::MAX - 1), []);
    }
}
