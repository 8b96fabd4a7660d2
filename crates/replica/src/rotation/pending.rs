//! Outcomes of updates that are known, but not reported until all live members show the update.

use crate::io::Verdict;
use crate::limits::{UPDATE_WAIT_MS, UPDATES_WAITING_MAX};
use crate::replica::Replica;
use std::collections::{BTreeMap, BTreeSet};
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

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

    fn put(&mut self, index: u64, request_id: u64, verdict: Verdict, deadline_ms: u64) {
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
    fn expired(&mut self, now_ms: u64) -> Vec<u64> {
        let later = self.deadlines.split_off(&(now_ms + 1, (0, 0)));
        let expired = core::mem::replace(&mut self.deadlines, later);
        let verdict_of = |(_, key): (u64, (u64, u64))| self.verdicts.remove(&key);
        expired.into_iter().filter_map(verdict_of).map(|(request_id, _, _)| request_id).collect()
    }
}

impl Replica {
    /// Reports the outcome of an UPDATE to its client. For a zone with `ack = all-live` this waits until all live
    /// members show `index`.
    pub(crate) fn report_outcome(&mut self, request_id: u64, verdict: Verdict, message: &[u8], index: u64) {
        let must_wait = matches!(verdict, Verdict::Answer(_))
            && !planted!(RepeatNotHeld)
            && index > self.rotation.all_live_index
            && self.machine.settings.has_all_live()
            && zone_of(message).is_some_and(|zone| self.machine.settings.is_all_live(&zone));
        if !must_wait {
            return self.verdict(request_id, verdict);
        }
        // The update is committed, so it must not be reported as not done.
        if self.rotation.pending.len() >= UPDATES_WAITING_MAX {
            return self.verdict(request_id, Verdict::Unknown);
        }
        let deadline_ms = self.now.monotonic_ms + UPDATE_WAIT_MS;
        self.rotation.pending.put(index, request_id, verdict, deadline_ms);
    }

    /// Reports expired outcomes as unknown.
    pub(crate) fn tick_pending_outcomes(&mut self) {
        for request_id in self.rotation.pending.expired(self.now.monotonic_ms) {
            self.verdict(request_id, Verdict::Unknown);
        }
    }
}

/// The zone that an UPDATE is for.
fn zone_of(message: &[u8]) -> Option<ZoneId> {
    let Parsed::Request(request) = parse_request(message) else { return None };
    Some(ZoneId { view: 0, apex: request.question.as_ref()?.qname.to_canonical() })
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
