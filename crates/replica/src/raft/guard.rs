//! Checks inbound messages before raft gets them. Raft panics on messages that a correct member never sends, and
//! trusts every claim in a message about its sender.
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
    /// Pass it to raft.
    Step,
    /// Drop it: it is late, or its sender has no vote as far as this member knows. Correct members send such
    /// messages.
    Ignore,
    /// Drop it and count it: no correct member sends it to this one.
    Drop,
    /// The sender, which may lead, makes a claim that is possible only if this member's log lost or changed
    /// acknowledged entries. One such message is not enough evidence.
    Contradicts(Contradiction),
}

/// A leader's claim against this member's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contradiction {
    /// This member acknowledged entries up to this index, but its log ends before.
    Lost { index: u64 },
    /// The entry at this index differs from the one committed in this log.
    Diverged { index: u64 },
}

/// What this member knows about senders besides raft's configuration.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    /// Members that another member confirmed, oldest first: see [`crate::io::Input::PeerConfirmed`].
    pub(crate) confirmed: Vec<NodeId>,
    /// No leader was heard for so long that a voter unknown to this member may have to lead.
    pub(crate) is_leaderless: bool,
}

impl Senders {
    /// Whether an id may campaign and lead, as far as this member knows. A learner may have become a voter while this
    /// member was away; it is accepted once no other member leads.
    fn may_lead(&self, node: &RawNode<LogStorage>, id: NodeId) -> bool {
        is_voter(node, id) || self.confirmed.contains(&id) || self.is_leaderless || planted!(LearnerLeadsAtOnce)
    }
}

/// Checks a message from the member `from`.
pub(crate) fn guard(node: &RawNode<LogStorage>, senders: &Senders, from: NodeId, message: &Message) -> Guard {
    let raft = &node.raft;
    if message.from != from || message.to != raft.id || message.term == 0 || !is_countable(message) {
        return Guard::Drop;
    }
    // Raft answers messages of older terms without reading the rest.
    if message.term < raft.term {
        return Guard::Step;
    }
    match message.get_msg_type() {
        MessageType::MsgHeartbeat | MessageType::MsgAppend | MessageType::MsgSnapshot => {
            guard_leader(node, senders, message)
        }
        // A restoring member must not campaign yet; the leader continues.
        MessageType::MsgTimeoutNow if is_restoring(node) => Guard::Drop,
        // A leader hands over only to a member that is up to date, and that member has heard it in this term.
        MessageType::MsgTimeoutNow => step_if(message.term == raft.term && raft.leader_id == from),
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote if !senders.may_lead(node, from) => Guard::Ignore,
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => step_if(is_possible_campaign(message)),
        MessageType::MsgAppendResponse | MessageType::MsgHeartbeatResponse => guard_response(node, message),
        // Only voters are asked. A vote is given in the term of the candidate; a refused pre-vote carries a later
        // term.
        MessageType::MsgRequestVoteResponse => step_if(is_voter(node, from) && message.term == raft.term),
        MessageType::MsgRequestPreVoteResponse => step_if(is_voter(node, from)),
        _ => Guard::Drop,
    }
}

const fn step_if(is_possible: bool) -> Guard {
    if is_possible { Guard::Step } else { Guard::Drop }
}

/// Whether the log begins after the applied state: a checkpoint is about to replace the state.
pub(super) fn is_restoring(node: &RawNode<LogStorage>) -> bool {
    !planted!(CampaignsWhileRestoring) && node.raft.raft_log.applied + 1 < node.raft.raft_log.first_index()
}

/// Whether an id has a vote in the configuration known here, in either half of a joint one.
fn is_voter(node: &RawNode<LogStorage>, id: NodeId) -> bool {
    node.raft.prs().conf().voters().contains(id)
}

/// Whether all numbers can be counted up without overflow. A request for a checkpoint is refused: the leader finds
/// out itself that one is needed.
fn is_countable(message: &Message) -> bool {
    let numbers =
        [message.term, message.log_term, message.index, message.commit, message.commit_term, message.reject_hint];
    numbers.iter().all(|&number| number <= RAFT_NUMBER_MAX) && message.request_snapshot == 0
}

/// Whether the candidate's last entry is of an older term than its campaign, and its log reaches its commit index.
const fn is_possible_campaign(message: &Message) -> bool {
    message.log_term < message.term && message.commit <= message.index && message.commit_term <= message.log_term
}

/// Checks messages that only the leader of a term sends. A term has at most one leader (raft paper 5.2).
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
    // Only a leader gets these answers; a former leader may get late ones.
    if raft.state != StateRole::Leader {
        return Guard::Ignore;
    }
    // A recently removed member may still answer earlier messages.
    let Some(progress) = raft.prs().get(message.from) else { return Guard::Ignore };
    if message.term > raft.term {
        // A member in a later term tells the leader of this one only by this kind of message (R/raft.rs:1395).
        return step_if(!is_heartbeat);
    }
    // A member acknowledges no entry that the leader never had, and rejects no entry that it acknowledged. (For a
    // rejection, Raft 0.7 would set `next` to `matched` or lower: its unreleased fix #557.)
    let last = raft.raft_log.last_index();
    let impossible = if message.reject && !planted!(LateRejectionTaken) {
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
    // Every checkpoint that ends at this index ends with the entry committed here.
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
    if (!contiguous || !rising) && !planted!(MalformedAppendTaken) || message.log_term > message.term {
        return Guard::Drop;
    }
    // A leader has every committed entry, so its log equals this one up to the commit index.
    let committed = log.committed;
    let differs = |&(index, term): &(u64, u64)| {
        index <= committed && index >= log.first_index() && log.term(index).is_ok_and(|own| own != term)
    };
    let positions = message.entries.iter().map(|entry| (entry.index, entry.term));
    if let Some((index, _)) = positions.chain([(message.index, message.log_term)]).find(differs) {
        return Guard::Contradicts(Contradiction::Diverged { index });
    }
    // Raft searches for the last entry that both logs share, and panics if it is before the tail.
    if message.index >= committed && log.term(committed).is_ok_and(|own| own > message.log_term) {
        return Guard::Contradicts(Contradiction::Diverged { index: committed });
    }
    Guard::Step
}
