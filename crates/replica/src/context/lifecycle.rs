//! Whether this member answers queries, may lead, and continues to run.

use super::Outputs;
use crate::io::{FatalReason, Output, Serving};

/// Progress of this member's removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Removal {
    /// It is a member, or will become one.
    #[default]
    No,
    /// It is no longer in the settings.
    Decided,
    /// It is also out of Raft's configuration.
    Out,
}

/// Progress of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    No,
    /// Requested: the leadership is handed over and clients are answered, at most until this time.
    HandingOver(u64),
    /// The last record is being written, by the job with this ticket.
    Writing {
        last: Option<u64>,
    },
    /// It is written. Its results are reported before the end.
    Written,
    Done,
}

/// Whether this member answers, leads and continues.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    serving: Serving,
    /// This replica's state differs from the majority's.
    pub(crate) is_fenced_by_hash: bool,
    /// The reason to exit in an orderly way, as soon as possible.
    pub(crate) pending_fatal: Option<FatalReason>,
    removal: Removal,
    pub(crate) stop: Stop,
    fatal: Option<FatalReason>,
}

impl Default for Lifecycle {
    /// A replica that was just opened does not answer yet.
    fn default() -> Self {
        Self {
            serving: Serving::No,
            is_fenced_by_hash: false,
            pending_fatal: None,
            removal: Removal::No,
            stop: Stop::No,
            fatal: None,
        }
    }
}

impl Lifecycle {
    pub(crate) const fn serving(&self) -> Serving {
        self.serving
    }

    /// A fenced or removed replica never answers again. A replica that has answered continues without a leader.
    pub(crate) fn set_serving(&mut self, serving: Serving, outputs: &mut Outputs) {
        let is_out = self.is_fenced_by_hash || self.is_removed() && !planted!(RemovedMemberAnswers);
        let serving = if is_out { Serving::No } else { serving };
        if self.serving != serving {
            self.serving = serving;
            outputs.push(Output::ServingChanged { serving });
        }
    }

    /// Also true while it is about to end because its state cannot be trusted.
    pub(crate) const fn is_fenced(&self) -> bool {
        self.is_fenced_by_hash || self.pending_fatal.is_some()
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removal != Removal::No
    }

    /// Notes how far the removal has come. It never goes back.
    pub(crate) fn set_removal(&mut self, removal: Removal, outputs: &mut Outputs) {
        if self.removal < removal {
            self.removal = removal;
            if !planted!(RemovedMemberAnswers) {
                self.set_serving(Serving::No, outputs);
            }
            outputs.push(Output::Removed { is_out: removal == Removal::Out });
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop != Stop::No
    }

    /// The last record is on disk, or there is no room for it.
    pub(crate) fn stopped(&mut self, outputs: &mut Outputs) {
        if self.pending_fatal.is_some() {
            self.stop = Stop::Written;
            return;
        }
        self.stop = Stop::Done;
        outputs.push(Output::Stopped);
    }

    /// Stops this replica. It reports the reason once.
    pub(crate) fn end(&mut self, reason: FatalReason, outputs: &mut Outputs) {
        if self.fatal.is_none() {
            self.fatal = Some(reason);
            self.serving = Serving::No;
            outputs.push(Output::ServingChanged { serving: Serving::No });
            outputs.push(Output::Fatal { reason });
        }
    }

    pub(crate) const fn fatal_reason(&self) -> Option<FatalReason> {
        self.fatal
    }
}
