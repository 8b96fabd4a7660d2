//! TLS between the nodes of a cluster, and with clients.

// Mutual TLS between nodes: a CA of the cluster, and a certificate for each node.
pub(crate) mod accepted_cas;
pub(crate) mod ca;
pub(crate) mod names;
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
