//! A clean stop: a leader hands over first, and clients get the outcomes of the updates that this node received. Then
//! a last record carries the commit index. A replica whose state cannot be trusted stops in the same order, but waits
//! only for its own proposals.

use super::Replica;
use crate::context::Stop;
use crate::io::FatalReason;
use crate::limits::STOP_WAIT_MS;

impl Replica {
    pub(super) fn handle_stop(&mut self) {
        if self.local.lifecycle.stop != Stop::No {
            return;
        }
        self.local.lifecycle.stop = Stop::HandingOver(self.local.now.monotonic_ms + STOP_WAIT_MS);
        self.tick_stop();
    }

    /// The state of this replica can no longer be trusted, but its log can. It stops as on request, but reports the
    /// reason. Its proposals are decided first, so that their clients get answers.
    pub(crate) fn end_in_order(&mut self, reason: FatalReason) {
        if self.local.lifecycle.pending_fatal.is_some() {
            return;
        }
        self.local.lifecycle.pending_fatal = Some(reason);
        self.withdraw_checkpoint();
        if self.local.lifecycle.stop == Stop::No {
            self.local.lifecycle.stop = Stop::HandingOver(self.local.now.monotonic_ms + STOP_WAIT_MS);
        }
    }

    /// This replica cannot apply further entries. The commit index is written first, so the next start reaches the
    /// same entry and reports it before it contacts any peer.
    pub(crate) fn end_at_once(&mut self, reason: FatalReason) {
        self.local.lifecycle.pending_fatal = Some(reason);
        self.withdraw_checkpoint();
        self.write_last();
    }

    /// A leader hands over and clients are answered first; then a last record carries the commit index.
    pub(crate) fn tick_stop(&mut self) {
        match (self.local.lifecycle.stop, self.local.lifecycle.pending_fatal) {
            (Stop::HandingOver(until_ms), _) => self.hand_over(until_ms),
            (Stop::Written, Some(reason)) => self.local.lifecycle.end(reason, &mut self.outputs),
            // The last record would wait for room. All acknowledged entries are on disk without it.
            (Stop::Writing { .. }, _) if self.full.is_log_full() => self.local.lifecycle.stopped(&mut self.outputs),
            _ => {}
        }
    }

    fn hand_over(&mut self, until_ms: u64) {
        let has_time = self.local.now.monotonic_ms < until_ms;
        let leads_on = has_time && self.driver.is_leader();
        if leads_on && self.local.lifecycle.pending_fatal.is_some() && self.head.uncommitted_count() > 0 {
            return;
        }
        let successor = self.successor().filter(|_| leads_on);
        if let Some(to) = successor {
            if !self.driver.is_transferring() {
                self.driver.transfer_leader(to);
            }
            return;
        }
        if has_time
            && self.local.lifecycle.pending_fatal.is_none()
            && self.owes_outcomes()
            && !planted!(StopForgetsOutcomes)
        {
            return;
        }
        self.write_last();
    }

    /// Whether clients of this node wait for the outcomes of updates. No new updates are accepted, so soon none
    /// waits. Without a leader or a majority some may remain; those clients repeat their update on another node.
    fn owes_outcomes(&self) -> bool {
        self.requests.waiters.has_updates() || self.reads.has_refusals() || self.rotation.pending.len() > 0
    }

    fn write_last(&mut self) {
        self.local.lifecycle.stop = Stop::Writing { last: None };
        self.driver.log_mut().touch();
    }
}
