//! What a log may lack.

use super::membership::NodeId;

/// Entries that a log may lack: up to an index, acknowledged in or before a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspectedLoss {
    /// The term of the leader that contradicted the log, or the term of the torn record.
    pub term: u64,
    /// The last entry that the log may lack, or the entry that may differ.
    pub index: u64,
    /// Whether the log has an entry at the index that may differ.
    pub is_diverged: bool,
    /// Whether no leader has contradicted the log. The loss is then a torn record that was cut off, or the
    /// end of a log that the disk lost.
    pub is_torn: bool,
}

/// A leader's contradiction of this member's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContradictedLog {
    /// The leader.
    pub by: NodeId,
    /// Its term.
    pub term: u64,
    /// The entry that is missing or differs.
    pub index: u64,
    /// The last entry of the log.
    pub last_index: u64,
    /// The number of contradicting messages.
    pub count: u32,
    /// The suspected loss that the next start must know.
    pub loss: SuspectedLoss,
}

impl SuspectedLoss {
    /// The end of a log that this disk lost. `index` is the last entry that may have been there.
    pub(crate) const fn of_end(term: u64, index: u64) -> Self {
        Self { term, index, is_diverged: false, is_torn: true }
    }

    /// Whether a candidate with this last entry has at least the entries that this log may lack. A complete log that
    /// ends at the suspected entry would vote for it too.
    pub(crate) const fn allows_vote_for(&self, log_term: u64, index: u64) -> bool {
        log_term > self.term || (log_term == self.term && index >= self.index)
    }

    /// Combines two suspected losses.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (own, others) = ((self.term, self.index), (other.term, other.index));
        let (term, index) = own.max(others);
        // A voter that lacks the later entry may still hold the earlier one.
        let is_torn = self.is_torn && other.is_torn && own == others;
        Self { term, index, is_diverged: self.is_diverged || other.is_diverged, is_torn }
    }
}
