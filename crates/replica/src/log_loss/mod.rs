//! A leader contradicts this member's log: it relies on entries that this log lacks, or has other entries where this
//! log's are committed. A correct leader does that only if this member's disk lost acknowledged entries.
//!
//! ```text
//!   contradiction --> dropped and counted; the member neither votes nor campaigns while it is repeated
//!   ... repeated by the leader of one term --> the process exits; the shell stores the suspected loss
//!   next start with a suspected loss --> acknowledges entries, but votes only for logs with the missing entries
//!   a leader has sent the missing entries --> the suspected loss is resolved
//! ```
//!
//! A single message has no lasting effect, because its sender may lie. If the contradiction is true, this preserves
//! Raft's guarantee: a log that lost acknowledged entries must not help to elect a leader without them (raft paper
//! 5.4.1).
//!
//! A log whose torn last record was cut off starts with a suspected loss too: see [`torn`].

mod torn;

pub(crate) use torn::loss_of_torn_record;

use crate::context::{Context, Outputs};
use crate::io::{ContradictedLog, FatalReason, NodeId, Output, SuspectedLoss};
use crate::limits::{CONTRADICTED_MS, CONTRADICTION_KEPT_MS, CONTRADICTIONS_MIN};
use crate::progress::Progress;
use crate::raft::{Contradiction, Driver};
use raft::eraftpb::{Message, MessageType};
use std::collections::BTreeMap;

/// What this member's log may have lost.
#[derive(Debug)]
pub(crate) struct LogLoss {
    /// The suspected loss that was stored before the start.
    stored: Option<SuspectedLoss>,
    /// The current contradiction by the leader of this term.
    contradiction: Option<LeaderContradiction>,
    /// Findings about a torn record.
    findings: Findings,
}

/// The findings of a member with a torn record, since its start.
#[derive(Debug, Default)]
struct Findings {
    /// Lower bounds for the ends of other voters' logs, as term and index. The entries of the torn record are unknown,
    /// except perhaps the last one. So a log that ends after this member's may hold some of them.
    ends: BTreeMap<NodeId, (u64, u64)>,
    /// The newest term in any voter's report.
    newest_term: u64,
    /// The leader, its term, and since when it leads in this process's running time.
    led: Option<(NodeId, u64, u64)>,
    /// When this member last reported the end of its log, in this process's running time.
    reported_ms: u64,
    /// The last report to the shell: its time in this process's running time, and the voters it named.
    reported: Option<(u64, Vec<NodeId>)>,
}

/// One leader's contradictions, in one term.
#[derive(Clone, Copy, Debug)]
struct LeaderContradiction {
    by: NodeId,
    loss: SuspectedLoss,
    count: u32,
    first_ms: u64,
    last_ms: u64,
}

impl LogLoss {
    pub(crate) fn new(stored: Option<SuspectedLoss>) -> Self {
        Self { stored, contradiction: None, findings: Findings::default() }
    }

    fn all(&self) -> impl Iterator<Item = SuspectedLoss> {
        [self.stored, self.contradiction.map(|contradiction| contradiction.loss)].into_iter().flatten()
    }

    /// Whether this member must not campaign, because its log may lack what it acknowledged.
    pub(crate) const fn is_suspected(&self) -> bool {
        self.stored.is_some() || self.contradiction.is_some()
    }

    /// The suspected loss from the start.
    pub(crate) const fn stored(&self) -> Option<SuspectedLoss> {
        self.stored
    }

    /// The suspected loss from the start, if it is a torn record.
    pub(super) fn torn_loss(&self) -> Option<SuspectedLoss> {
        self.stored.filter(|loss| loss.is_torn)
    }

    /// Whether a leader currently contradicts the log.
    pub(super) const fn is_contradicted(&self) -> bool {
        self.contradiction.is_some()
    }

    /// Whether a message asks for a vote or to campaign, and this member must not comply because of its log.
    pub(crate) fn withholds_vote(&self, driver: &Driver, message: &Message) -> bool {
        match message.get_msg_type() {
            MessageType::MsgTimeoutNow => self.is_suspected(),
            // A candidate with an older term learns of this term and gets no vote.
            // So does one whose pre-vote asks about this term: it is still in an older one.
            kind @ (MessageType::MsgRequestVote | MessageType::MsgRequestPreVote) => {
                let is_older = kind == MessageType::MsgRequestPreVote && message.term == driver.term();
                message.term >= driver.term()
                    && !is_older
                    && !planted!(VotesDespiteLoss)
                    && !self.all().all(|loss| {
                        loss.allows_vote_for(message.log_term, message.index)
                            || self.holds_all_known_entries(driver, loss, message)
                    })
            }
            _ => false,
        }
    }

    /// A message of this term contradicts the log. It counts when it comes from the leader of the term. Returns the
    /// reason to end if the leader has repeated it.
    pub(crate) fn note_contradiction(
        &mut self,
        context: &Context<'_>,
        by: NodeId,
        term: u64,
        what: Contradiction,
    ) -> Option<FatalReason> {
        if context.driver.leader() != Some(by) || context.driver.term() != term {
            return None;
        }
        let (index, is_diverged) = match what {
            Contradiction::Lost { index } => (index, false),
            Contradiction::Diverged { index } => (index, true),
        };
        let (loss, now_ms) = (SuspectedLoss { term, index, is_diverged, is_torn: false }, context.running_ms());
        let is_same = |contradiction: &LeaderContradiction| {
            (contradiction.by, contradiction.loss.term, contradiction.loss.is_diverged) == (by, term, is_diverged)
                && contradiction.last_ms + CONTRADICTION_KEPT_MS >= now_ms
        };
        let contradiction = match self.contradiction.filter(is_same) {
            Some(contradiction) => LeaderContradiction {
                loss: contradiction.loss.and(loss),
                count: contradiction.count.saturating_add(1),
                last_ms: now_ms,
                ..contradiction
            },
            None => LeaderContradiction { by, loss, count: 1, first_ms: now_ms, last_ms: now_ms },
        };
        self.contradiction = Some(contradiction);
        if contradiction.count < CONTRADICTIONS_MIN || now_ms < contradiction.first_ms + CONTRADICTED_MS {
            return None;
        }
        let contradicted = ContradictedLog {
            by,
            term,
            index: contradiction.loss.index,
            last_index: context.driver.last_index(),
            count: contradiction.count,
            loss: self.stored.map_or(contradiction.loss, |stored| stored.and(contradiction.loss)),
        };
        let reason = if is_diverged { FatalReason::LogDiverged } else { FatalReason::LogLost };
        Some(reason(contradicted))
    }

    /// Drops a contradiction that is not repeated, and resolves the stored loss once the log is known to be complete.
    /// Returns the term that this member must enter, see [`torn`].
    pub(crate) fn tick(&mut self, context: &Context<'_>, progress: &Progress, outputs: &mut Outputs) -> Option<u64> {
        let now_ms = context.running_ms();
        self.contradiction =
            self.contradiction.filter(|contradiction| contradiction.last_ms + CONTRADICTION_KEPT_MS >= now_ms);
        let loss = self.stored?;
        if is_resolved(context.driver, loss) || (loss.is_torn && self.is_torn_settled(context, progress, loss)) {
            self.stored = None;
            outputs.push(Output::LossResolved);
        }
        self.tick_torn(context, outputs)
    }
}

/// Whether the log has the entries that it may have lacked. Either they were sent again and are committed. Or a
/// leader of a later term, which has every committed entry (raft paper 5.4.3), has sent an entry of its own term
/// and all entries before it.
fn is_resolved(driver: &Driver, loss: SuspectedLoss) -> bool {
    let last = driver.commit().min(driver.persisted_index());
    let term = driver.term();
    let is_of_later_leader = driver.leader().is_some() && term > loss.term;
    let by_later_leader = is_of_later_leader && driver.log().term(last).is_ok_and(|of| of == term);
    by_later_leader || (!loss.is_diverged && last >= loss.index)
}
