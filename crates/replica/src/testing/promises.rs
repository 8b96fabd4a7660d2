//! The promises that a frame makes to another member, for code that inspects frames from outside.

use crate::io::NodeId;
use crate::peer::Frame;
use raft::eraftpb::MessageType;

/// Frames with votes are shorter, so longer frames need not be decoded.
const VOTE_BYTES: usize = 256;

/// The term and the candidate of the vote in a frame: a candidate's vote for itself, or a granted vote.
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
