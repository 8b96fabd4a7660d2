//! Links between the machines: frames on their way, and cut links.

use super::Cluster;
use raft::eraftpb::MessageType;
use replica::io::{Input, MemberState, NodeId};
use replica::peer::Frame;

impl Cluster {
    /// Cuts all links of a member, without a notification.
    pub(crate) fn cut_off(&mut self, id: NodeId) {
        for other in self.machines.keys().copied().filter(|&other| other != id) {
            self.cut.extend([(id, other), (other, id)]);
        }
    }

    /// Frames on their way between two members.
    pub(crate) fn on_the_way(&self, from: NodeId, to: NodeId) -> Vec<Frame> {
        let sent = self.frames.iter().filter(|(_, sent)| (sent.0, sent.1) == (from, to));
        sent.map(|(_, sent)| Frame::decode(&sent.2).unwrap().1).collect()
    }

    /// Handles a frame from an unknown id as a shell does: asks a member that the replica knows. A replica that knows
    /// no others asks the node through which it joined.
    pub(crate) fn confirm(&mut self, to: NodeId, from: NodeId) {
        if self.replica(to).admits(from) {
            return;
        }
        let membership = self.replica(to).membership();
        let is_asked = |&id: &NodeId| {
            let is_reached = !self.cut.contains(&(id, to)) && !self.cut.contains(&(to, id));
            let is_known = membership.is_member(id) || membership.members().next().is_none();
            ![from, to].contains(&id) && is_reached && is_known
        };
        let knows = |id: NodeId| self.replica(id).membership().is_member(from);
        if membership.state_of(from) == MemberState::Unknown && self.alive().into_iter().filter(is_asked).any(knows) {
            self.input(to, Input::PeerConfirmed { id: from });
        }
    }

    /// Restarts the connections between two members. Frames on their way are lost.
    pub(crate) fn reconnect(&mut self, one: NodeId, other: NodeId) {
        self.frames.retain(|&(_, (from, to, _))| [(one, other), (other, one)].iter().all(|pair| (from, to) != *pair));
        for (id, peer) in [(one, other), (other, one)] {
            let boot_id = self.machines[&peer].boot_id;
            self.input(id, Input::PeerGone { id: peer, refused: false });
            self.input(id, Input::PeerConnected { id: peer, boot_id });
        }
        self.settle();
    }
}

/// Whether a follower acknowledges entries with this frame.
pub(crate) fn is_append_response(frame: &[u8]) -> bool {
    let is_it = |message: &raft::eraftpb::Message| message.get_msg_type() == MessageType::MsgAppendResponse;
    matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if is_it(&message))
}
