//! What a leader knows about leases and members in its term.

use crate::io::NodeId;
use crate::limits::LEASE_GUARD_MS;
use std::collections::{BTreeMap, VecDeque};

/// What a leader knows in its term.
#[derive(Debug, Default)]
pub(super) struct LeaderState {
    /// When this replica became the leader of its term.
    pub(super) since_ms: u64,
    /// The same in this process's running time.
    pub(super) since_running_ms: u64,
    /// The index that this leader had applied when it could first grant leases. All updates that earlier leaders
    /// acknowledged are before it.
    pub(super) start_index: u64,
    /// This replica answers no queries.
    pub(super) never_answers: bool,
    pub(super) requests: BTreeMap<NodeId, LeaseRequests>,
    /// When the newest granted request arrived.
    pub(super) granted: BTreeMap<NodeId, u64>,
    /// The last index that each member reported as visible.
    pub(super) shown: BTreeMap<NodeId, u64>,
    /// Batches of updates that some member may not show yet: the last index, and when it was applied here, in running
    /// time.
    pub(super) waiting: VecDeque<(u64, u64)>,
    /// Since when members outside the rotation have caught up.
    pub(super) caught_up_since: BTreeMap<NodeId, u64>,
    /// When a zone last needed a rotation.
    pub(super) used_ms: u64,
    /// Until when a request waits for a rotation to begin.
    pub(super) wanted_until_ms: u64,
    /// When this leader last proposed a change of the rotation.
    pub(super) proposed_ms: Option<u64>,
    /// When either all-live index last advanced.
    pub(super) moved_ms: u64,
}

/// A member's lease requests. While one waits for a majority, the next may arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseRequests {
    pub(super) first: ReceivedRequest,
    pub(super) newest: ReceivedRequest,
    pub(super) answers: bool,
    /// When the newest arrived, in this process's running time.
    pub(super) running_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedRequest {
    pub(super) boot_id: u64,
    pub(super) at_ms: u64,
    /// When it arrived, by the leader's clock.
    pub(super) received_ms: u64,
}

impl LeaderState {
    /// Whether a member may be answering under a lease of this term.
    pub(super) fn may_answer(&self, id: NodeId, now_ms: u64) -> bool {
        self.granted.get(&id).is_some_and(|received_ms| received_ms + LEASE_GUARD_MS >= now_ms)
    }
}
