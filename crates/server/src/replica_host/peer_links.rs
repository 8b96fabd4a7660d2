//! The connections to the other nodes, as the replica thread uses them. This is a trait because
//! the folder `peer` imports this folder, so this folder must not import `peer`.

use replica::io::{Channel, Member, Membership, NodeId};

/// All channels to all peers.
pub(crate) trait PeerLinks: Send {
    /// Dials new and moved members, and disconnects removed ones. A removed member that raft still counts stays
    /// connected: the majority that removes it may need it.
    fn set_members(&mut self, members: &[Member], membership: &Membership);

    /// Dials a member, if it is new and not this node. It may be known only because another member confirmed it: then
    /// its leader gets an answer.
    fn add(&mut self, member: &Member);

    /// Queues a frame in its channel, or drops it if the channel is full or not connected. [`flush`](Self::flush) sends
    /// it.
    fn send(&mut self, to: NodeId, channel: Channel, frame: Vec<u8>);

    /// Sends the queued frames.
    fn flush(&mut self);
}
