//! One message, and the reaction of each server.

use super::recorded::Recorded;
use super::response::{Reaction, Reply, Response};
use super::served::Served;
use testbed::Kind;

/// Minimum number of peers that must agree with ours, or all peers if there are fewer.
const AGREEING_MIN: usize = 2;

/// One judged message.
pub struct Case<'a> {
    /// The message that was sent.
    pub message: &'a Recorded,
    /// The result of ours.
    pub ours: &'a Reaction,
    /// Size of our response in bytes.
    pub ours_bytes: usize,
    /// The result of each peer.
    pub peers: Vec<(Kind, &'a Reaction)>,
    /// Our response to the same query over TCP, which is never truncated.
    pub whole: Option<&'a Response>,
    /// Size of that response in bytes.
    pub whole_bytes: usize,
    /// All RRs and RCODEs that peers sent in the whole run.
    pub served: &'a Served,
}

impl<'a> Case<'a> {
    /// A case without an answer over TCP.
    #[must_use]
    pub fn new(message: &'a Recorded, ours: &'a Reply, peers: &[(Kind, &'a Reply)], served: &'a Served) -> Self {
        let peers = peers.iter().map(|(kind, reply)| (*kind, &reply.reaction)).collect();
        Self { message, ours: &ours.reaction, ours_bytes: ours.byte_count, peers, whole: None, whole_bytes: 0, served }
    }

    /// Whether enough peers agree with ours.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        let agreeing = self.peers.iter().filter(|(_, reaction)| *reaction == self.ours).count();
        agreeing >= self.agreeing_min()
    }

    /// Number of peers that must agree with ours.
    pub(crate) fn agreeing_min(&self) -> usize {
        AGREEING_MIN.min(self.peers.len())
    }
}
