//! A clean stop: a leader hands over first, and clients get the outcomes of the updates that this node received; then
//! one last record carries the commit index. A replica that must not go on with the state that it holds ends in the
//! same order, but waits only for what it has proposed itself.

use super::Replica;
use crate::io::{FatalReason, Output};
use crate::limits::STOP_WAIT_MS;

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    /// Asked for; the leadership is being handed over, and clients are being told, until then at the latest.
    HandingOver(u64),
    /// The last record is being written, by the job of this ticket.
    Writing {
        last: Option<u64>,
    },
    /// It is written; what follows from it is told before the end.
    Written,
    Done,
}

impl Replica {
    pub(super) fn handle_stop(&mut self) {
        if self.stop != Stop::No {
            return;
        }
        self.stop = Stop::HandingOver(self.now.monotonic_ms + STOP_WAIT_MS);
        self.tick_stop();
    }

    /// This replica's zones are not to be trusted from now on, its log is: it ends as if it were asked to stop, but
    /// says why. What it has proposed is decided first, so that who waits for that is told.
    pub(crate) fn end_in_order(&mut self, reason: FatalReason) {
        if self.pending_fatal.is_some() {
            return;
        }
        self.pending_fatal = Some(reason);
        self.distrust_checkpoints();
        if self.stop == Stop::No {
            self.stop = Stop::HandingOver(self.now.monotonic_ms + STOP_WAIT_MS);
        }
    }

    /// This replica cannot apply any more. The commit index goes to the disk first, so that a start meets the entry at
    /// which it ended, and says so, before it talks to anybody.
    pub(crate) fn end_at_once(&mut self, reason: FatalReason) {
        self.pending_fatal = Some(reason);
        self.distrust_checkpoints();
        self.write_last();
    }

    /// A leader hands over and clients are told first; then one last record carries the commit index.
    pub(crate) fn tick_stop(&mut self) {
        match (self.stop, self.pending_fatal) {
            (Stop::HandingOver(until_ms), _) => self.hand_over(until_ms),
            (Stop::Written, Some(reason)) => self.fatal(reason),
            // The last record would wait for room. All acknowledged entries are on disk without it.
            (Stop::Writing { .. }, _) if self.is_log_full() => self.stopped(),
            _ => {}
        }
    }

    fn hand_over(&mut self, until_ms: u64) {
        let has_time = self.now.monotonic_ms < until_ms;
        let leads_on = has_time && self.driver.is_leader();
        if leads_on && self.pending_fatal.is_some() && self.head.uncommitted_count() > 0 {
            return;
        }
        let successor = self.successor().filter(|_| leads_on);
        if let Some(to) = successor {
            if !self.driver.is_transferring() {
                self.driver.transfer_leader(to);
            }
            return;
        }
        if has_time && self.pending_fatal.is_none() && self.owes_outcomes() {
            return;
        }
        self.write_last();
    }

    /// Whether clients of this node wait for what becomes of their updates. Nothing new is taken by now, so soon there
    /// are none; without a leader or a majority there may be, and they ask again elsewhere.
    fn owes_outcomes(&self) -> bool {
        self.waiters.has_updates() || self.reads.has_refusals() || self.rotation.pending.len() > 0
    }

    fn write_last(&mut self) {
        self.stop = Stop::Writing { last: None };
        self.driver.log_mut().touch();
    }

    /// The last record is on disk.
    pub(super) fn stopped(&mut self) {
        if self.pending_fatal.is_some() {
            self.stop = Stop::Written;
            return;
        }
        self.stop = Stop::Done;
        self.out.push_back(Output::Stopped);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop != Stop::No
    }
}
