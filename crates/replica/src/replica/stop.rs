//! A clean stop: a leader hands over first, then one last record carries the commit index.

use super::Replica;
use crate::io::Output;
use crate::limits::STOP_WAIT_MS;

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    /// Asked for; the leadership is being handed over until then at the latest.
    HandingOver(u64),
    /// The last record is being written, by the job of this ticket.
    Writing {
        last: Option<u64>,
    },
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

    /// A leader hands over first; then one last record carries the commit index.
    pub(super) fn tick_stop(&mut self) {
        let Stop::HandingOver(until_ms) = self.stop else { return };
        let successor = self.successor().filter(|_| self.driver.is_leader());
        if let Some(to) = successor
            && self.now.monotonic_ms < until_ms
        {
            if !self.driver.is_transferring() {
                self.driver.transfer_leader(to);
            }
            return;
        }
        self.stop = Stop::Writing { last: None };
        self.driver.log_mut().touch();
    }

    pub(super) fn stopped(&mut self) {
        self.stop = Stop::Done;
        self.out.push_back(Output::Stopped);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop != Stop::No
    }
}
