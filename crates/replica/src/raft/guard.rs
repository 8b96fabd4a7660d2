//! Checks of inbound messages before raft sees them: raft panics on what a correct member never sends, and believes
//! whatever a message claims about its sender.
//!
//! ```text
//!   message --> sender may say it? --> numbers possible? --> agrees with what is committed here? --> raft
//! ```

use super::storage::LogStorage;
use crate::io::NodeId;
use crate::limits::RAFT_NUMBER_MAX;
use ::raft::eraftpb::{Message, MessageType};
use ::raft::{INVALID_ID, RawNode, StateRole};

/// What to do with an inbound message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Step it.
    Step,
    /// Drop it: it came late, or its sender has no vote as far as is known here. That happens to correct members.
    Ignore,
    /// Drop it and count it: no correct member sends it to this one.
    Drop,
    /// The sender, who may lead, says something that cannot be unless this member's log lost or changed what it
    /// acknowledged. A single message is not enough to believe it.
    Contradicts(Contradiction),
}

/// What a leader says against this member's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contradiction {
    /// This member acknowledged entries up to here; its log ends before.
    Lost { index: u64 },
    /// Another entry stands here than the one that is committed in this log.
    Diverged { index: u64 },
}

/// What is known of senders besides raft's own configuration.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    /// Members by the word of a member, oldest first: see [`crate::io::Input::PeerConfirmed`].
    pub(crate) confirmed: Vec<NodeId>,
    /// No leader was heard for so long that a member with a vote that is not known here may have to lead.
    pub(crate) is_leaderless: bool,
}

impl Senders {
    /// Whether an id may campaign and lead, as far as is known here. A learner may have got its vote while this member
    /// was away: it is believed once nobody else leads.
    fn may_lead(&self, node: &RawNode<LogStorage>, id: NodeId) -> bool {
        is_voter(node, id) || self.confirmed.contains(&id) || self.is_leaderless
    }
}

/// Checks a message from the member `from`.
pub(crate) fn guard(node: &RawNode<LogStorage>, senders: &Senders, from: NodeId, message: &Message) -> Guard {
    let raft = &node.raft;
    if message.from != from || message.to != raft.id || message.term == 0 || !is_countable(message) {
        return Guard::Drop;
    }
    // Raft answers older terms without a look at the rest.
    if message.term < raft.term {
        return Guard::Step;
    }
    match message.get_msg_type() {
        MessageType::MsgHeartbeat | MessageType::MsgAppend | MessageType::MsgSnapshot => {
            guard_leader(node, senders, message)
        }
        // It is asked to campaign, and must not yet; the leader goes on.
        MessageType::MsgTimeoutNow if is_restoring(node) => Guard::Drop,
        // A leader hands over to a member that it has brought up to date: that one has heard it in this term.
        MessageType::MsgTimeoutNow => step_if(message.term == raft.term && raft.leader_id == from),
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote if !senders.may_lead(node, from) => Guard::Ignore,
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => step_if(is_possible_campaign(message)),
        MessageType::MsgAppendResponse | MessageType::MsgHeartbeatResponse => guard_response(node, message),
        // Only voters are asked. A vote is given in the term of the candidate; a refused pre-vote names a later one.
        MessageType::MsgRequestVoteResponse => step_if(is_voter(node, from) && message.term == raft.term),
        MessageType::MsgRequestPreVoteResponse => step_if(is_voter(node, from)),
        _ => Guard::Drop,
    }
}

const fn step_if(is_possible: bool) -> Guard {
    if is_possible { Guard::Step } else { Guard::Drop }
}

/// Whether the log begins behind what is applied: a checkpoint is about to take the place of the state.
pub(super) fn is_restoring(node: &RawNode<LogStorage>) -> bool {
    node.raft.raft_log.applied + 1 < node.raft.raft_log.first_index()
}

/// Whether an id has a vote in the configuration that is known here, in either half of a joint one.
fn is_voter(node: &RawNode<LogStorage>, id: NodeId) -> bool {
    node.raft.prs().conf().voters().contains(id)
}

/// Whether all numbers are such that counting on from them does not overflow. A checkpoint is never asked for: the
/// leader sees that one is needed.
fn is_countable(message: &Message) -> bool {
    let numbers =
        [message.term, message.log_term, message.index, message.commit, message.commit_term, message.reject_hint];
    numbers.iter().all(|&number| number <= RAFT_NUMBER_MAX) && message.request_snapshot == 0
}

/// A candidate's last entry is of an older term than the one it campaigns in, and it has what it knows to be committed.
const fn is_possible_campaign(message: &Message) -> bool {
    message.log_term < message.term && message.commit <= message.index && message.commit_term <= message.log_term
}

/// What only the leader of a term sends. There is one in a term: raft paper 5.2.
fn guard_leader(node: &RawNode<LogStorage>, senders: &Senders, message: &Message) -> Guard {
    let raft = &node.raft;
    let known = Some(raft.leader_id).filter(|&id| message.term == raft.term && id != INVALID_ID);
    match known {
        Some(leader) if leader == message.from => {}
        Some(_) => return Guard::Drop,
        None if senders.may_lead(node, message.from) => {}
        None => return Guard::Ignore,
    }
    match message.get_msg_type() {
        // A leader's heartbeat carries no more than this member acknowledged (R/raft_log.rs:286 panics).
        MessageType::MsgHeartbeat if message.commit > raft.raft_log.last_index() => {
            if planted!(ContradictionIgnored) {
                return Guard::Drop;
            }
            Guard::Contradicts(Contradiction::Lost { index: message.commit })
        }
        MessageType::MsgAppend => guard_append(node, message),
        MessageType::MsgSnapshot => guard_snapshot(node, message),
        _ => Guard::Step,
    }
}

fn guard_response(node: &RawNode<LogStorage>, message: &Message) -> Guard {
    let raft = &node.raft;
    let is_heartbeat = message.get_msg_type() == MessageType::MsgHeartbeatResponse;
    // Only a leader is answered, and one that leads no more may be answered late.
    if raft.state != StateRole::Leader {
        return Guard::Ignore;
    }
    // One that went a moment ago answers what it was sent before.
    let Some(progress) = raft.prs().get(message.from) else { return Guard::Ignore };
    if message.term > raft.term {
        // A member that is in a later term says so to the leader of this one, by this kind of message alone
        // (R/raft.rs:1395).
        return step_if(!is_heartbeat);
    }
    // A member acknowledges nothing that the leader never had, and rejects nothing that it acknowledged. (Raft
    // 0.7 would set `next` at or behind `matched` for the second: its unreleased fix #557.)
    let last = raft.raft_log.last_index();
    let impossible = if message.reject {
        message.index <= progress.matched || message.reject_hint < progress.matched
    } else {
        message.index > last
    };
    step_if(message.commit <= last && (is_heartbeat || !impossible))
}

fn guard_snapshot(node: &RawNode<LogStorage>, message: &Message) -> Guard {
    let log = &node.raft.raft_log;
    let metadata = message.get_snapshot().get_metadata();
    let (index, term) = (metadata.index, metadata.term);
    if index == 0 || index > RAFT_NUMBER_MAX || term > message.term {
        return Guard::Drop;
    }
    // What is committed here is what every checkpoint ends with.
    let differs = index == log.committed && log.term(index).is_ok_and(|own| own != term);
    if differs { Guard::Contradicts(Contradiction::Diverged { index }) } else { Guard::Step }
}

fn guard_append(node: &RawNode<LogStorage>, message: &Message) -> Guard {
    let log = &node.raft.raft_log;
    let contiguous = message.entries.iter().enumerate().all(|(offset, entry)| {
        entry.index == message.index.wrapping_add(1 + offset as u64) && entry.term <= message.term
    });
    let rising = message.entries.windows(2).all(|pair| pair[0].term <= pair[1].term)
        && message.entries.first().is_none_or(|entry| entry.term >= message.log_term);
    if !contiguous || !rising || message.log_term > message.term {
        return Guard::Drop;
    }
    // A leader has every committed entry: at and behind the commit index nothing can differ.
    let committed = log.committed;
    let differs = |&(index, term): &(u64, u64)| {
        index <= committed && index >= log.first_index() && log.term(index).is_ok_and(|own| own != term)
    };
    let places = message.entries.iter().map(|entry| (entry.index, entry.term));
    if let Some((index, _)) = places.chain([(message.index, message.log_term)]).find(differs) {
        return Guard::Contradicts(Contradiction::Diverged { index });
    }
    // Raft looks for the place where both logs agree and panics when that is before the tail.
    if message.index >= committed && log.term(committed).is_ok_and(|own| own > message.log_term) {
        return Guard::Contradicts(Contradiction::Diverged { index: committed });
    }
    Guard::Step
}
