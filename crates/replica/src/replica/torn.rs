//! The last record of the log was incomplete at the start and was cut off.
//!
//! Nearly always a crash interrupted the write, and the record was never acknowledged. But a disk that later lost a
//! sector leaves the same trace, and then the entries may have been acknowledged. So the member starts with a [`Doubt`]
//! about them. The doubt ends when one of these shows that no acknowledged entry is missing:
//!
//! - The log holds the entries again, or all entries of a leader with a later term.
//! - The leader of the term has confirmed the log for a second and never contradicted it.
//! - Every other voter has reported the end of its log, and no log is longer than this one. If entries of the torn
//!   record had been acknowledged, another voter would hold them. If all of them lack them, more disks lost them than
//!   the cluster can survive. If a voter's log is longer, this member votes only for logs of at least that length.
//!
//! Members in doubt report the ends of their logs to each other while they know no leader. So a cluster that lost power
//! as a whole elects a leader by itself. A voter's report counts only if its term is newer than the record's: then it
//! accepts no more entries from the record's leader. So a member in doubt that knows no leader enters such a term.

use super::{Doubt, Replica};
use crate::io::{NodeId, Output};
use crate::limits::{CONTRADICTED_MS, DOUBT_REPORTED_MS, LEADERLESS_MS, POSITION_SENT_MS, RAFT_NUMBER_MAX};
use crate::log::{Log, Repair, TornRecord};
use crate::peer::Frame;
use raft::eraftpb::{Message, MessageType};
use std::collections::BTreeMap;

/// The findings of a member in doubt about a torn record, since its start.
#[derive(Debug, Default)]
pub(super) struct Findings {
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

/// Returns what the log may lack, if a torn record was cut off that may have held entries.
pub(crate) fn doubt_of(log: &Log, repairs: &[Repair]) -> Option<Doubt> {
    let record = repairs.iter().find_map(|repair| match repair {
        Repair::TailCut { record, .. } => Some(*record),
        Repair::VoteCopy => None,
    })?;
    let (term, index) = match record {
        _ if planted!(TornTailWithoutDoubt) => return None,
        TornRecord::Empty => return None,
        TornRecord::Entries { last } => (last.term, last.index),
        // The entries are unknown. Only a log with a later term is sure to hold them.
        TornRecord::Unknown => (log.hard_state().term, u64::MAX),
    };
    Some(Doubt::of_end(term, index))
}

impl Replica {
    /// Whether the log holds the entries of the torn record, or none of them was acknowledged.
    pub(super) fn is_torn_settled(&mut self, doubt: Doubt) -> bool {
        let last = self.driver.persisted_index();
        let is_complete = self.driver.log().term(last).is_ok_and(|term| doubt.allows_vote_for(term, last));
        let is_voter = self.driver.voters().contains(&self.driver.id());
        let own = (self.driver.log().term(last).unwrap_or(0), last);
        let is_longest = is_voter && self.longest_reported().is_some_and(|end| end <= own);
        is_complete || self.is_confirmed_by_leader() || is_longest
    }

    /// Whether one leader has led for a while without contradicting the log, and this member has applied everything
    /// that the leader has committed. Entries that this member acknowledged to the leader would be among these.
    fn is_confirmed_by_leader(&mut self) -> bool {
        let now_ms = self.running_ms;
        let leader = self.driver.leader().map(|leader| (leader, self.driver.term()));
        let led = &mut self.doubts.findings.led;
        if led.map(|(leader, term, _)| (leader, term)) != leader {
            *led = leader.map(|(leader, term)| (leader, term, now_ms));
        }
        let is_led = led.is_some_and(|(_, _, since_ms)| since_ms + CONTRADICTED_MS <= now_ms);
        is_led && !self.is_contradicted() && self.staleness_ms() < CONTRADICTED_MS
    }

    /// Notes the end of a voter's log from its request for a vote.
    pub(super) fn note_position(&mut self, from: NodeId, message: &Message) {
        let Some(doubt) = self.torn_doubt() else { return };
        // A pre-vote asks about the term after the sender's own.
        let term = match message.get_msg_type() {
            MessageType::MsgRequestVote => message.term,
            MessageType::MsgRequestPreVote => message.term.saturating_sub(1),
            _ => return,
        };
        if message.from != from || term >= RAFT_NUMBER_MAX || !self.driver.voters().contains(&from) {
            return;
        }
        self.doubts.findings.newest_term = self.doubts.findings.newest_term.max(term);
        // A voter that is still in the record's term may yet receive and acknowledge the record.
        if term <= doubt.term {
            return;
        }
        let end = self.doubts.findings.ends.entry(from).or_default();
        // A delayed report contains an older position than the known one.
        *end = (message.log_term, message.index).max(*end);
    }

    /// The end of the longest log of another voter, once all of them have reported theirs. Another voter holds every
    /// acknowledged entry of the torn record, so each of these entries is in a log that ends there or earlier.
    fn longest_reported(&self) -> Option<(u64, u64)> {
        let own = self.driver.id();
        let others = self.driver.voters().into_iter().filter(|id| *id != own);
        others
            .map(|id| self.doubts.findings.ends.get(&id).copied())
            .try_fold((0, 0), |longest, end| Some(longest.max(end?)))
    }

    /// Whether a candidate's log is as long as every other voter's. Such a log contains all acknowledged entries of the
    /// torn record.
    pub(super) fn holds_all_known_entries(&self, doubt: Doubt, message: &Message) -> bool {
        let end = (message.log_term, message.index);
        self.torn_doubt() == Some(doubt) && self.longest_reported().is_some_and(|longest| longest <= end)
    }

    /// The other voters that have not yet reported the end of their log.
    #[must_use]
    pub fn doubt_waits_for(&self) -> Vec<NodeId> {
        if self.torn_doubt().is_none() {
            return Vec::new();
        }
        let mut voters = self.driver.voters();
        voters.retain(|id| *id != self.driver.id() && !self.doubts.findings.ends.contains_key(id));
        voters
    }

    /// While this member knows no leader, it reports the end of its log to the other voters. It also reports to the
    /// shell the voters that it waits for.
    pub(super) fn tick_torn(&mut self) {
        let Some(doubt) = self.torn_doubt() else { return };
        let (now_ms, unled_ms) = (self.running_ms, self.running_ms - self.led_ms);
        let findings = &mut self.doubts.findings;
        if unled_ms >= POSITION_SENT_MS && now_ms >= findings.reported_ms + POSITION_SENT_MS {
            findings.reported_ms = now_ms;
            // A report from the record's term proves nothing. Other voters learn of the new term from this member.
            let term = findings.newest_term.max(doubt.term.saturating_add(1));
            if self.driver.term() < term {
                self.driver.enter_term(term);
            } else {
                self.send_position();
            }
        }
        if unled_ms < LEADERLESS_MS {
            return;
        }
        let waits_for = self.doubt_waits_for();
        let is_due = self.doubts.findings.reported.as_ref().is_none_or(|(at_ms, last)| {
            let pause_ms = if *last == waits_for { DOUBT_REPORTED_MS } else { LEADERLESS_MS };
            now_ms >= at_ms + pause_ms
        });
        if is_due {
            self.doubts.findings.reported = Some((now_ms, waits_for.clone()));
            self.out.push_back(Output::DoubtWaits { waits_for });
        }
    }

    /// Sends a pre-vote request (raft dissertation 9.6) without campaigning. The request contains the end of the log,
    /// changes nothing at the other voters, and every build knows it. A follower ignores the answers.
    fn send_position(&mut self) {
        let (id, index) = (self.driver.id(), self.driver.last_index());
        let Ok(log_term) = self.driver.log().term(index) else { return };
        let voters = self.driver.voters();
        if !voters.contains(&id) {
            return;
        }
        for to in voters.into_iter().filter(|&to| to != id) {
            let mut message =
                Message { from: id, to, term: self.driver.term() + 1, log_term, index, ..Message::default() };
            message.set_msg_type(MessageType::MsgRequestPreVote);
            self.send(to, &Frame::Raft(Box::new(message)));
        }
    }
}
