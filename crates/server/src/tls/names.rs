//! The names of a member in its certificate.

use replica::io::NodeId;

/// Prefix of member names; node names do not have it.
pub(crate) const MEMBER: &str = "member-";

/// The node number in an id, which certificates name.
pub(crate) const fn node_number(id: NodeId) -> u64 {
    id & 0xFFFF_FFFF
}

/// The node number as a name in its certificate. Both sides of a connection check it.
pub(crate) fn node_name(number: u64) -> String {
    format!("node-{number}.catamaran.internal")
}

/// The full member id as a name in its certificate. A node number may be reused by another member.
pub(crate) fn member_name(id: NodeId) -> String {
    format!("{}{}-{}.catamaran.internal", MEMBER, node_number(id), id >> 32)
}
