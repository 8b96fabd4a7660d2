//! Mutual TLS between the nodes of one cluster: an authority made with the cluster, a certificate for each node.

pub(crate) mod authority;
pub(crate) mod session;

/// The name in a node's certificate; both sides of a connection check it.
pub(crate) fn node_name(id: u64) -> String {
    format!("node-{id}.catamaran.internal")
}
