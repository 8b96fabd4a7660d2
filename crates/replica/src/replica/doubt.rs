//! A leader contradicts this member's log: it relies on entries that this log lacks, or has other entries where this
//! log's are committed. A correct leader does that only if this member's disk lost acknowledged entries.
//!
//! ```text
//!   contradiction --> dropped and counted; the member neither votes nor campaigns while it is repeated
//!   ... repeated by the leader of one term --> the process exits; the shell stores the doubt
//!   next start with the doubt --> acknowledges entries, but votes only for logs that have what this one may lack
//!   a leader has sent the missing entries --> the doubt is cleared
//! ```
//!
//! A single message has no lasting effect, because its sender may lie. The doubt preserves Raft's guarantee if the
//! contradiction is true: a log that lost acknowledged entries must not help to elect a leader that lacks them (raft
//! paper 5.4.1).
//!
//! A log whose torn last record was cut off starts with a doubt too: see [`super::torn`].

use super::Replica;
use super::torn::Findings;
use crate::io::{FatalReason, NodeId, Output};
use crate::limits::{CONTRADICTED_MS, CONTRADICTION_KEPT_MS, CONTRADICTIONS_MIN};
use crate::raft::Contradiction;
use raft::eraftpb::{Message, MessageType};

/// Entries that a log may lack: up to an index, acknowledged in or before a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The term of the leader that contradicted the log, or the term of the torn record.
    pub term: u64,
    /// The last entry that the log may lack, or the entry that may differ.
    pub index: u64,
    /// Whether the log has an entry at the index that may differ.
    pub is_diverged: bool,
    /// Whether no leader has contradicted the log. The doubt is then about a torn record that was cut off, or about the
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
    /// The doubt that the next start needs.
    pub doubt: Doubt,
}

/// Doubts about this member's log.
#[derive(Debug)]
pub(crate) struct Doubts {
    /// The doubt stored before the start.
    kept: Option<Doubt>,
    /// The current contradiction by the leader of this term.
    contradiction: Option<LeaderContradiction>,
    /// Findings about a torn record.
    pub(super) findings: Findings,
}

/// One leader's contradictions, in one term.
#[derive(Clone, Copy, Debug)]
struct LeaderContradiction {
    by: NodeId,
    doubt: Doubt,
    count: u32,
    first_ms: u64,
    last_ms: u64,
}

impl Doubt {
    /// A doubt about the end of a log that this disk lost. `index` is the last entry that may have been there.
    pub(crate) const fn of_end(term: u64, index: u64) -> Self {
        Self { term, index, is_diverged: false, is_torn: true }
    }

    /// Whether a candidate with this last entry has at least the entries that this log may lack. A complete log that
    /// ends at the doubted entry would vote for it too.
    pub(super) const fn allows_vote_for(&self, log_term: u64, index: u64) -> bool {
        log_term > self.term || (log_term == self.term && index >= self.index)
    }

    /// Combines two doubts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (own, others) = ((self.term, self.index), (other.term, other.index));
        let (term, index) = own.max(others);
        // A voter that lacks the later entry may still hold the earlier one.
        let is_torn = self.is_torn && other.is_torn && own == others;
        Self { term, index, is_diverged: self.is_diverged || other.is_diverged, is_torn }
    }
}

impl Doubts {
    pub(super) fn new(kept: Option<Doubt>) -> Self {
        Self { kept, contradiction: None, findings: Findings::default() }
    }

    fn all(&self) -> impl Iterator<Item = Doubt> {
        [self.kept, self.contradiction.map(|contradiction| contradiction.doubt)].into_iter().flatten()
    }
}

impl Replica {
    /// Whether this member must not campaign, because its log may lack what it acknowledged.
    pub(crate) const fn is_doubted(&self) -> bool {
        self.doubts.kept.is_some() || self.doubts.contradiction.is_some()
    }

    /// What the log may lack, as known at the start. The shell keeps it for the next start until
    /// [`Output::DoubtCleared`]. It must store the doubt before it carries out the first job of the disk.
    #[must_use]
    pub const fn doubt(&self) -> Option<Doubt> {
        self.doubts.kept
    }

    /// The doubt from the start, if it is about a torn record.
    pub(super) fn torn_doubt(&self) -> Option<Doubt> {
        self.doubts.kept.filter(|doubt| doubt.is_torn)
    }

    /// Whether a leader currently contradicts the log.
    pub(super) const fn is_contradicted(&self) -> bool {
        self.doubts.contradiction.is_some()
    }

    /// Whether a message asks for a vote, or to campaign, and this member's log is not good enough for that.
    pub(super) fn withholds_vote(&mut self, message: &Message) -> bool {
        let withholds = match message.get_msg_type() {
            MessageType::MsgTimeoutNow => self.is_doubted(),
            // A candidate with an older term learns of this term and gets no vote.
            // So does one whose pre-vote asks about this term: it is still in an older one.
            kind @ (MessageType::MsgRequestVote | MessageType::MsgRequestPreVote) => {
                let is_older = kind == MessageType::MsgRequestPreVote && message.term == self.driver.term();
                message.term >= self.driver.term()
                    && !is_older
                    && !planted!(VotesDespiteDoubt)
                    && !self.doubts.all().all(|doubt| {
                        doubt.allows_vote_for(message.log_term, message.index)
                            || self.holds_all_known_entries(doubt, message)
                    })
            }
            _ => false,
        };
        self.counters.votes_withheld += u64::from(withholds);
        withholds
    }

    /// A message of this term contradicts the log. It counts when it comes from the leader of the term.
    pub(super) fn note_contradiction(&mut self, by: NodeId, term: u64, what: Contradiction) {
        if self.driver.leader() != Some(by) || self.driver.term() != term {
            return;
        }
        let (index, is_diverged) = match what {
            Contradiction::Lost { index } => (index, false),
            Contradiction::Diverged { index } => (index, true),
        };
        let (doubt, now_ms) = (Doubt { term, index, is_diverged, is_torn: false }, self.running_ms);
        let is_same = |contradiction: &LeaderContradiction| {
            (contradiction.by, contradiction.doubt.term, contradiction.doubt.is_diverged) == (by, term, is_diverged)
                && contradiction.last_ms + CONTRADICTION_KEPT_MS >= now_ms
        };
        let contradiction = match self.doubts.contradiction.filter(is_same) {
            Some(contradiction) => LeaderContradiction {
                doubt: contradiction.doubt.and(doubt),
                count: contradiction.count.saturating_add(1),
                last_ms: now_ms,
                ..contradiction
            },
            None => LeaderContradiction { by, doubt, count: 1, first_ms: now_ms, last_ms: now_ms },
        };
        self.doubts.contradiction = Some(contradiction);
        if contradiction.count < CONTRADICTIONS_MIN || now_ms < contradiction.first_ms + CONTRADICTED_MS {
            return;
        }
        let contradicted = ContradictedLog {
            by,
            term,
            index: contradiction.doubt.index,
            last_index: self.driver.last_index(),
            count: contradiction.count,
            doubt: self.doubts.kept.map_or(contradiction.doubt, |kept| kept.and(contradiction.doubt)),
        };
        let reason = if is_diverged { FatalReason::LogDiverged } else { FatalReason::LogLost };
        self.fatal(reason(contradicted));
    }

    /// Drops a contradiction that is not repeated, and clears the stored doubt once the log is known to be complete.
    pub(super) fn tick_doubts(&mut self) {
        let now_ms = self.running_ms;
        self.doubts.contradiction =
            self.doubts.contradiction.filter(|contradiction| contradiction.last_ms + CONTRADICTION_KEPT_MS >= now_ms);
        let Some(doubt) = self.doubts.kept else { return };
        if self.is_resolved(doubt) || (doubt.is_torn && self.is_torn_settled(doubt)) {
            self.doubts.kept = None;
            self.out.push_back(Output::DoubtCleared);
        }
        self.tick_torn();
    }

    /// Whether the log has the entries that it may have lacked. Either they were sent again and are committed. Or a
    /// leader of a later term, which has every committed entry (raft paper 5.4.3), has sent an entry of its own term
    /// and all entries before it.
    fn is_resolved(&self, doubt: Doubt) -> bool {
        let last = self.driver.commit().min(self.driver.persisted_index());
        let term = self.driver.term();
        let is_of_later_leader = self.driver.leader().is_some() && term > doubt.term;
        let by_later_leader = is_of_later_leader && self.driver.log().term(last).is_ok_and(|of| of == term);
        by_later_leader || (!doubt.is_diverged && last >= doubt.index)
    }
}
