//! Checks of inbound messages before raft sees them: raft panics on what a correct member never sends.

use super::storage::LogStorage;
use crate::io::FatalReason;
use crate::limits::RAFT_NUMBER_MAX;
use ::raft::RawNode;
use ::raft::eraftpb::{Message, MessageType};

/// What to do with an inbound message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Step it.
    Step,
    /// Drop it: it is malformed, or not for this member.
    Drop,
    /// Something that cannot be is: this member's log lost or changed what it acknowledged.
    Quarantine(FatalReason),
}

/// Judges a message that came from `from`.
pub(crate) fn guard(node: &RawNode<LogStorage>, from: u64, message: &Message) -> Guard {
    let raft = &node.raft;
    if message.from != from || message.to != raft.id || message.term == 0 || !is_countable(message) {
        return Guard::Drop;
    }
    // Raft answers older terms without a look at the rest.
    if message.term < raft.term {
        return Guard::Step;
    }
    match message.get_msg_type() {
        // A leader's heartbeat carries no more than this member acknowledged (R/raft_log.rs:286 panics).
        MessageType::MsgHeartbeat if message.commit > raft.raft_log.last_index() => {
            Guard::Quarantine(FatalReason::LogLost)
        }
        // It is asked to campaign, and must not yet; who leads goes on.
        MessageType::MsgTimeoutNow if is_restoring(node) => Guard::Drop,
        // Nobody else leads in a term that this member leads.
        MessageType::MsgHeartbeat | MessageType::MsgAppend | MessageType::MsgSnapshot
            if message.term == raft.term && raft.state == raft::StateRole::Leader =>
        {
            Guard::Drop
        }
        MessageType::MsgAppend => guard_append(node, message),
        MessageType::MsgSnapshot => guard_snapshot(node, message),
        MessageType::MsgAppendResponse if raft.state == raft::StateRole::Leader && message.term == raft.term => {
            guard_response(node, message)
        }
        _ => Guard::Step,
    }
}

/// Whether the log begins behind what is applied: a checkpoint is about to take the place of the state.
pub(super) fn is_restoring(node: &RawNode<LogStorage>) -> bool {
    node.raft.raft_log.applied + 1 < node.raft.raft_log.first_index()
}

/// Whether all numbers are such that counting on from them does not overflow. A checkpoint is never asked for: the
/// leader sees that one is needed.
fn is_countable(message: &Message) -> bool {
    let numbers =
        [message.term, message.log_term, message.index, message.commit, message.commit_term, message.reject_hint];
    numbers.iter().all(|&number| number <= RAFT_NUMBER_MAX) && message.request_snapshot == 0
}

fn guard_response(node: &RawNode<LogStorage>, message: &Message) -> Guard {
    // Who went a moment ago answers what it was sent before: raft leaves that alone.
    let Some(progress) = node.raft.prs().get(message.from) else { return Guard::Step };
    // A member acknowledges nothing that the leader never had, and rejects nothing that it acknowledged. (Raft
    // 0.7 would set `next` at or behind `matched` for the second: its unreleased fix #557.)
    let impossible = if message.reject {
        message.index <= progress.matched || message.reject_hint < progress.matched
    } else {
        message.index > node.raft.raft_log.last_index()
    };
    if impossible { Guard::Drop } else { Guard::Step }
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
    if differs { Guard::Quarantine(FatalReason::LogDiverged) } else { Guard::Step }
}

fn guard_append(node: &RawNode<LogStorage>, message: &Message) -> Guard {
    let log = &node.raft.raft_log;
    let contiguous = message.entries.iter().enumerate().all(|(place, entry)| {
        entry.index == message.index.wrapping_add(1 + place as u64) && entry.term <= message.term
    });
    let rising = message.entries.windows(2).all(|pair| pair[0].term <= pair[1].term)
        && message.entries.first().is_none_or(|entry| entry.term >= message.log_term);
    if !contiguous || !rising {
        return Guard::Drop;
    }
    // A leader has every committed entry: at and behind the commit index nothing can differ.
    let committed = log.committed;
    let differs = |index: u64, term: u64| {
        index <= committed && index >= log.first_index() && log.term(index).is_ok_and(|own| own != term)
    };
    if message.entries.iter().any(|entry| differs(entry.index, entry.term)) || differs(message.index, message.log_term)
    {
        return Guard::Quarantine(FatalReason::LogDiverged);
    }
    // Raft looks for the place where both logs agree and panics when that is before the tail.
    if message.index >= committed && log.term(committed).is_ok_and(|own| own > message.log_term) {
        return Guard::Quarantine(FatalReason::LogDiverged);
    }
    Guard::Step
}
