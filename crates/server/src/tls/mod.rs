//! TLS: between the nodes of one cluster, and towards clients.

// Mutual TLS between nodes: an authority made with the cluster, a certificate for each node.
pub(crate) mod authority;
pub(crate) mod session;
pub(crate) mod validity;
// Towards clients: the certificate of the operator, sessions that resume on any node.
pub(crate) mod certificate;
pub(crate) mod client_secrets;
mod connection_ids;
pub(crate) mod public;
pub(crate) mod quic;
mod tickets;

/// The name in a node's certificate; both sides of a connection check it.
pub(crate) fn node_name(id: u64) -> String {
    format!("node-{id}.catamaran.internal")
}
