//! The last record of the log was incomplete at the start and was cut off.
//!
//! Nearly always a crash interrupted the write, and the record was never acknowledged. But a disk that later lost a
//! sector leaves the same trace, and then the entries may have been acknowledged. So the member starts with a
//! [`SuspectedLoss`]. It is resolved when one of these shows that no acknowledged entry is missing:
//!
//! - The log holds the entries again, or all entries of a leader with a later term.
//! - The leader of the term has confirmed the log for a second and never contradicted it.
//! - Every other voter has reported the end of its log, and no log is longer than this one. If entries of the torn
//!   record had been acknowledged, another voter would hold them. If all of them lack them, more disks lost them than
//!   the cluster can survive. If a voter's log is longer, this member votes only for logs of at least that length.
//!
//! Members with a torn record report the ends of their logs to each other while they know no leader. So a cluster that
//! lost power as a whole elects a leader by itself. A voter's report counts only if its term is newer than the
//! record's: then it accepts no more entries from the record's leader. So a member with a torn record that knows no
//! leader enters such a term.

use super::LogLoss;
use crate::context::{Context, Outputs};
use crate::io::{NodeId, Output, SuspectedLoss};
use crate::limits::{CONTRADICTED_MS, LEADERLESS_MS, LOSS_REPORTED_MS, POSITION_SENT_MS, RAFT_NUMBER_MAX};
use crate::log::{Log, Repair, TornRecord};
use crate::peer::Frame;
use crate::progress::Progress;
use crate::raft::Driver;
use raft::eraftpb::{Message, MessageType};

/// Returns what the log may lack, if a torn record was cut off that may have held entries.
pub(crate) fn loss_of_torn_record(log: &Log, repairs: &[Repair]) -> Option<SuspectedLoss> {
    let record = repairs.iter().find_map(|repair| match repair {
        Repair::TailCut { record, .. } => Some(*record),
        Repair::VoteCopy => None,
    })?;
    let (term, index) = match record {
        _ if planted!(TornTailTrusted) => return None,
        TornRecord::Empty => return None,
        TornRecord::Entries { last } => (last.term, last.index),
        // The entries are unknown. Only a log with a later term is sure to hold them.
        TornRecord::Unknown => (log.hard_state().term, u64::MAX),
    };
    Some(SuspectedLoss::of_end(term, index))
}

impl LogLoss {
    /// Whether the log holds the entries of the torn record, or none of them was acknowledged.
    pub(super) fn is_torn_settled(&mut self, context: &Context<'_>, progress: &Progress, loss: SuspectedLoss) -> bool {
        let driver = context.driver;
        let last = driver.persisted_index();
        let is_complete = driver.log().term(last).is_ok_and(|term| loss.allows_vote_for(term, last));
        let is_voter = driver.voters().contains(&driver.id());
        let own = (driver.log().term(last).unwrap_or(0), last);
        let is_longest = is_voter && self.longest_reported(driver).is_some_and(|end| end <= own);
        is_complete || self.is_confirmed_by_leader(context, progress) || is_longest
    }

    /// Whether one leader has led for a while without contradicting the log, and this member has applied everything
    /// that the leader has committed. Entries that this member acknowledged to the leader would be among these.
    fn is_confirmed_by_leader(&mut self, context: &Context<'_>, progress: &Progress) -> bool {
        let now_ms = context.running_ms();
        let leader = context.driver.leader().map(|leader| (leader, context.driver.term()));
        let led = &mut self.findings.led;
        if led.map(|(leader, term, _)| (leader, term)) != leader {
            *led = leader.map(|(leader, term)| (leader, term, now_ms));
        }
        let is_led = led.is_some_and(|(_, _, since_ms)| since_ms + CONTRADICTED_MS <= now_ms);
        is_led && !self.is_contradicted() && progress.staleness_ms(context) < CONTRADICTED_MS
    }

    /// Notes the end of a voter's log from its request for a vote.
    pub(crate) fn note_position(&mut self, driver: &Driver, from: NodeId, message: &Message) {
        let Some(loss) = self.torn_loss() else { return };
        // A pre-vote asks about the term after the sender's own.
        let term = match message.get_msg_type() {
            MessageType::MsgRequestVote => message.term,
            MessageType::MsgRequestPreVote => message.term.saturating_sub(1),
            _ => return,
        };
        if message.from != from || term >= RAFT_NUMBER_MAX || !driver.voters().contains(&from) {
            return;
        }
        self.findings.newest_term = self.findings.newest_term.max(term);
        // A voter that is still in the record's term may yet receive and acknowledge the record.
        if term <= loss.term {
            return;
        }
        let end = self.findings.ends.entry(from).or_default();
        // A delayed report contains an older position than the known one.
        *end = (message.log_term, message.index).max(*end);
    }

    /// The end of the longest log of another voter, once all of them have reported theirs. Another voter holds every
    /// acknowledged entry of the torn record, so each of these entries is in a log that ends there or earlier.
    fn longest_reported(&self, driver: &Driver) -> Option<(u64, u64)> {
        let own = driver.id();
        let others = driver.voters().into_iter().filter(|id| *id != own);
        others.map(|id| self.findings.ends.get(&id).copied()).try_fold((0, 0), |longest, end| Some(longest.max(end?)))
    }

    /// Whether a candidate's log is as long as every other voter's. Such a log contains all acknowledged entries of the
    /// torn record.
    pub(super) fn holds_all_known_entries(&self, driver: &Driver, loss: SuspectedLoss, message: &Message) -> bool {
        let end = (message.log_term, message.index);
        self.torn_loss() == Some(loss) && self.longest_reported(driver).is_some_and(|longest| longest <= end)
    }

    /// The other voters that have not yet reported the end of their log.
    pub(crate) fn unreported_voters(&self, driver: &Driver) -> Vec<NodeId> {
        if self.torn_loss().is_none() {
            return Vec::new();
        }
        let mut voters = driver.voters();
        voters.retain(|id| *id != driver.id() && !self.findings.ends.contains_key(id));
        voters
    }

    /// While this member knows no leader, it reports the end of its log to the other voters. It also reports to the
    /// shell the voters that it waits for. Returns the term that it must enter so that its reports count.
    pub(super) fn tick_torn(&mut self, context: &Context<'_>, outputs: &mut Outputs) -> Option<u64> {
        let loss = self.torn_loss()?;
        let mut to_enter = None;
        let (now_ms, unled_ms) = (context.running_ms(), context.running_ms() - context.local.led_ms);
        let findings = &mut self.findings;
        if unled_ms >= POSITION_SENT_MS && now_ms >= findings.reported_ms + POSITION_SENT_MS {
            findings.reported_ms = now_ms;
            // A report from the record's term proves nothing. Other voters learn of the new term from this member.
            let term = findings.newest_term.max(loss.term.saturating_add(1));
            if context.driver.term() < term {
                to_enter = Some(term);
            } else {
                send_position(context.driver, outputs);
            }
        }
        if unled_ms < LEADERLESS_MS {
            return to_enter;
        }
        let unreported_voters = self.unreported_voters(context.driver);
        let is_due = self.findings.reported.as_ref().is_none_or(|(at_ms, last)| {
            let pause_ms = if *last == unreported_voters { LOSS_REPORTED_MS } else { LEADERLESS_MS };
            now_ms >= at_ms + pause_ms
        });
        if is_due {
            self.findings.reported = Some((now_ms, unreported_voters.clone()));
            outputs.push(Output::LossUnresolved { unreported_voters });
        }
        to_enter
    }
}

/// Sends a pre-vote request (raft dissertation 9.6) without campaigning. The request contains the end of the log,
/// changes nothing at the other voters, and every build knows it. A follower ignores the answers.
fn send_position(driver: &Driver, outputs: &mut Outputs) {
    let (id, index) = (driver.id(), driver.last_index());
    let Ok(log_term) = driver.log().term(index) else { return };
    let voters = driver.voters();
    if !voters.contains(&id) {
        return;
    }
    for to in voters.into_iter().filter(|&to| to != id) {
        let mut message = Message { from: id, to, term: driver.term() + 1, log_term, index, ..Message::default() };
        message.set_msg_type(MessageType::MsgRequestPreVote);
        outputs.send(to, &Frame::Raft(Box::new(message)));
    }
}
