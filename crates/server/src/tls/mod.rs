//! TLS between the nodes of a cluster, and with clients.

// Mutual TLS between nodes: a CA of the cluster, and a certificate for each node.
pub(crate) mod ca;
pub(crate) mod peer_identity;
pub(crate) mod session;
pub(crate) mod validity;
// With clients: the operator's certificate, and sessions that resume on any node.
pub(crate) mod certificate;
pub(crate) mod client_secrets;
mod connection_ids;
pub(crate) mod public;
pub(crate) mod quic;
mod tickets;

use crate::peer::node_number;
use replica::io::NodeId;

/// The node number as a name in its certificate. Both sides of a connection check it.
pub(crate) fn node_name(number: u64) -> String {
    format!("node-{number}.catamaran.internal")
}

/// The full member id as a name in its certificate. A node number may be reused by another member.
pub(crate) fn member_name(id: NodeId) -> String {
    format!("{}{}-{}.catamaran.internal", peer_identity::MEMBER, node_number(id), id >> 32)
}
