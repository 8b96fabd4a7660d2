//! TLS: between the nodes of one cluster, and towards clients.

// Mutual TLS between nodes: a CA made with the cluster, a certificate for each node.
pub(crate) mod ca;
pub(crate) mod peer_identity;
pub(crate) mod session;
pub(crate) mod validity;
// Towards clients: the certificate of the operator, sessions that resume on any node.
pub(crate) mod certificate;
pub(crate) mod client_secrets;
mod connection_ids;
pub(crate) mod public;
pub(crate) mod quic;
mod tickets;

use crate::peer::node_number;
use replica::io::NodeId;

/// A name in a node's certificate: its number. Both sides of a connection check it.
pub(crate) fn node_name(number: u64) -> String {
    format!("node-{number}.catamaran.internal")
}

/// Another name there: the whole id of the member. A number that is given again is given to another member.
pub(crate) fn member_name(id: NodeId) -> String {
    format!("{}{}-{}.catamaran.internal", peer_identity::MEMBER, node_number(id), id >> 32)
}
