//! Links between the machines: frames on their way, links that are cut.

use super::Cluster;
use crate::io::{Input, MemberState, NodeId};
use crate::peer::Frame;
use raft::eraftpb::MessageType;

/// From whom, to whom, and what.
pub(super) type Sent = (NodeId, NodeId, Vec<u8>);

impl Cluster {
    /// Nothing reaches this one any more, nor comes from it, and nobody is told.
    pub(crate) fn cut_off(&mut self, id: NodeId) {
        for other in self.machines.keys().copied().filter(|&other| other != id) {
            self.cut.extend([(id, other), (other, id)]);
        }
    }

    /// What is on its way from one to the other.
    pub(crate) fn on_the_way(&self, from: NodeId, to: NodeId) -> Vec<Frame> {
        let sent = self.frames.iter().filter(|(_, sent)| (sent.0, sent.1) == (from, to));
        sent.map(|(_, sent)| Frame::decode(&sent.2).unwrap().1).collect()
    }

    /// What a shell does before it takes frames from an id that its replica does not know: it asks a member that the
    /// replica knows; one that knows nobody asks the node that it joined through.
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
        if membership.standing(from) == MemberState::Unknown && self.alive().into_iter().filter(is_asked).any(knows) {
            self.input(to, Input::PeerConfirmed { id: from });
        }
    }

    /// Connections between the two end and are made anew: what was on its way is lost.
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

/// Frames that tell a leader what its followers have.
pub(crate) fn is_append_response(frame: &[u8]) -> bool {
    let is_it = |message: &raft::eraftpb::Message| message.get_msg_type() == MessageType::MsgAppendResponse;
    matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if is_it(&message))
}
