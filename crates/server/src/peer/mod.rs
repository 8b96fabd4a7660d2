//! Connections between nodes: mutual TLS, one connection for each lane and direction, length-prefixed frames.
//!
//! Each node dials every other node three times (heartbeats, normal, bulk) and only sends on the connections that it
//! dialled. A dialler reads too, nothing ever comes, but so it sees at once when the other end is gone; the end of its
//! heartbeat connection, and whether dialling again is refused, is its own evidence about the peer.

pub(crate) mod accept;
pub(crate) mod admission;
pub(crate) mod announce;
pub(crate) mod data_keys;
pub(crate) mod dial;
pub(crate) mod frame;
pub(crate) mod hints;
pub(crate) mod join;
pub(crate) mod links;
mod member_connections;
pub(crate) mod outlet;
mod pending;
pub(crate) mod reach;
pub(crate) mod repair;
pub(crate) mod resolve;
mod silence;
pub(crate) mod supersede;
mod vouch;

use crate::metrics::Counter;
use replica::Trust;
use replica::io::{Lane, Member, Membership, NodeId};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The node number in an id: what a certificate is about.
pub(crate) const fn node_number(id: NodeId) -> u64 {
    id & 0xFFFF_FFFF
}

/// What happens on the connections, for the replica thread.
pub(crate) trait PeerEvents: Send + Sync + 'static {
    /// A whole frame; `permit` is its share of the inbound budget, given back when dropped.
    fn frame(&self, from: NodeId, frame: Vec<u8>, permit: tokio::sync::OwnedSemaphorePermit);
    /// Our heartbeat connection to a peer stands.
    fn connected(&self, id: NodeId, boot_id: u64);
    /// Our heartbeat connection to a peer ended or cannot be had.
    fn gone(&self, id: NodeId, refused: bool);
    /// A peer says that this node was removed from the cluster.
    fn told_removed(&self, by: NodeId);
    /// A member that this node knows vouches for one that it does not know.
    fn vouched(&self, member: Member);
    /// Who belongs to the cluster; changes when members do.
    fn membership(&self) -> watch::Receiver<Arc<Membership>>;
    /// What members know each other by.
    fn trust(&self) -> watch::Receiver<Arc<Trust>>;
}

/// Where connections are served: each runtime has one thread, since an update passes here four times before it is
/// answered, and of several threads each wakes another for what it would have done itself.
#[derive(Clone)]
pub(crate) struct LaneRuntimes {
    /// Heartbeats, and what clients wait for.
    pub(crate) quick: Handle,
    /// Checkpoints: no heartbeat waits for their encryption.
    pub(crate) bulk: Handle,
}

impl LaneRuntimes {
    pub(crate) const fn of(&self, lane: Lane) -> &Handle {
        match lane {
            Lane::Heartbeat | Lane::Normal => &self.quick,
            Lane::Bulk => &self.bulk,
        }
    }
}

/// What the connections count.
#[derive(Default, Debug)]
pub(crate) struct PeerCounters {
    /// Frames sent.
    pub(crate) sent: Counter,
    /// Frames dropped because their lane was full or down.
    pub(crate) dropped: Counter,
    /// Frames received.
    pub(crate) received: Counter,
    /// Connections refused: wrong certificate, greeting or frame, or more than a stranger may open.
    pub(crate) refused: Counter,
    /// Connections made.
    pub(crate) dialled: Counter,
    /// The peers that cannot be reached.
    pub(crate) reach: reach::Reach,
}

const fn lane_byte(lane: Lane) -> u8 {
    match lane {
        Lane::Heartbeat => 0,
        Lane::Normal => 1,
        Lane::Bulk => 2,
    }
}

const fn lane_from(byte: u8) -> Option<Lane> {
    match byte {
        0 => Some(Lane::Heartbeat),
        1 => Some(Lane::Normal),
        2 => Some(Lane::Bulk),
        _ => None,
    }
}
