//! What a frame promises to another member, for those who look at frames from outside.

use crate::io::NodeId;
use crate::peer::Frame;
use raft::eraftpb::MessageType;

/// Frames of votes are shorter; others need not be decoded.
const VOTE_BYTES: usize = 256;

/// The term and the candidate of a vote that a frame tells: the vote of a candidate for itself, or a vote given.
#[must_use]
pub fn vote_of(frame: &[u8]) -> Option<(u64, NodeId)> {
    if frame.len() > VOTE_BYTES {
        return None;
    }
    let Ok((_, Frame::Raft(message))) = Frame::decode(frame) else { return None };
    match message.get_msg_type() {
        MessageType::MsgRequestVote => Some((message.term, message.from)),
        MessageType::MsgRequestVoteResponse if !message.reject => Some((message.term, message.to)),
        _ => None,
    }
}
