//! The state of the connections of each member to each other member.

use replica::io::NodeId;
use std::collections::BTreeMap;

/// All connections, by dialling member and target.
#[derive(Debug, Default)]
pub(crate) struct Links(pub(crate) BTreeMap<(NodeId, NodeId), Link>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It is connected to this process.
    Up { boot: u64 },
    /// It is not connected. The result of the last dial attempt.
    Down { result: Option<DialResult> },
}

/// The result of a dial attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialResult {
    Refused,
    Silence,
}
