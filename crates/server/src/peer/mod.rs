//! Connections between nodes: mutual TLS, one connection per channel and direction, length-prefixed frames.
//!
//! Each node dials every other node three times (heartbeats, normal, bulk), and only sends on connections that it
//! dialled. A dialler also reads, although nothing arrives, to notice at once when the other end is gone. The end of
//! its heartbeat connection, and whether dialling again is refused, is its own evidence about the peer.

pub(crate) mod accept;
pub(crate) mod admission;
pub(crate) mod announce;
pub(crate) mod data_keys;
pub(crate) mod dial;
mod events;
pub(crate) mod frame;
pub(crate) mod join;
mod keepalive;
pub(crate) mod links;
mod member_check;
mod member_connections;
mod pending;
pub(crate) mod reachability;
pub(crate) mod repair;
pub(crate) mod resolve;
pub(crate) mod send_buffer;
pub(crate) mod supersede;

use crate::metrics::Counter;
use replica::Trust;
use replica::io::{Channel, Member, Membership, NodeId};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Events of the connections, for the replica thread.
pub(crate) trait PeerEvents: Send + Sync + 'static {
    /// A complete frame; `permit` is its share of the inbound budget, released on drop.
    fn frame(&self, from: NodeId, frame: Vec<u8>, permit: tokio::sync::OwnedSemaphorePermit);
    /// The heartbeat connection to a peer is established.
    fn connected(&self, id: NodeId, boot_id: u64);
    /// The heartbeat connection to a peer ended or failed.
    fn gone(&self, id: NodeId, refused: bool);
    /// A peer says that this node was removed from the cluster.
    fn reported_removed(&self, by: NodeId);
    /// A known member confirmed that another node is a member.
    fn confirmed(&self, member: Member);
    /// The members of the cluster, and changes of them.
    fn membership(&self) -> watch::Receiver<Arc<Membership>>;
    /// The CAs and pinned keys of the cluster.
    fn trust(&self) -> watch::Receiver<Arc<Trust>>;
}

/// The runtimes of the connections. Each has one thread: an update passes here four times before it is answered, and
/// waking other threads would cost more than the work.
#[derive(Clone)]
pub(crate) struct ChannelRuntimes {
    /// Heartbeats and updates.
    pub(crate) quick: Handle,
    /// Checkpoints, so that heartbeats do not wait for their encryption.
    pub(crate) bulk: Handle,
    /// Handshakes with addresses that belong to no member. Its thread has a low priority: a flood of them delays no
    /// heartbeat.
    pub(crate) strangers: Handle,
}

impl ChannelRuntimes {
    pub(crate) const fn of(&self, channel: Channel) -> &Handle {
        match channel {
            Channel::Heartbeat | Channel::Normal => &self.quick,
            Channel::Bulk => &self.bulk,
        }
    }
}

/// Counters of the connections.
#[derive(Default, Debug)]
pub(crate) struct PeerCounters {
    /// Frames sent.
    pub(crate) sent: Counter,
    /// Frames dropped because their channel was full or down.
    pub(crate) dropped: Counter,
    /// Frames received.
    pub(crate) received: Counter,
    /// Connections refused: wrong certificate, greeting or frame, or too many from an unknown address.
    pub(crate) refused: Counter,
    /// Connections made.
    pub(crate) dialled: Counter,
    /// The peers that cannot be reached.
    pub(crate) reachability: reachability::Reachability,
}

const fn channel_byte(channel: Channel) -> u8 {
    match channel {
        Channel::Heartbeat => 0,
        Channel::Normal => 1,
        Channel::Bulk => 2,
    }
}

const fn channel_from(byte: u8) -> Option<Channel> {
    match byte {
        0 => Some(Channel::Heartbeat),
        1 => Some(Channel::Normal),
        2 => Some(Channel::Bulk),
        _ => None,
    }
}
