//! Memory of the zones: how much each member has, and whether zones may grow.
//!
//! A member that runs out of memory is killed, and all of them hold the same zones. So every member tells the leader
//! what its zones take and what they may take, and the leader refuses growth before the smallest of them is full. What
//! deletes is always carried out.
//!
//! ```text
//!   shell --Input::Memory--> member --Frame::Memory--> leader: is_short?
//! ```

use crate::io::NodeId;
use crate::limits::{COPIED_IN_FLIGHT_BYTES_MAX, MEMORY_REPORT_MS};
use crate::peer::Frame;
use crate::replica::Replica;
use std::collections::BTreeMap;

/// What the zones of one member take, and what they may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Bytes in use, former versions included.
    pub used_bytes: u64,
    /// Bytes that they may use; zero: not limited.
    pub limit_bytes: u64,
}

impl MemoryFigures {
    /// From where on the zones may not grow: 80 % of the limit. The rest is for what is deleted: deleting copies, too.
    #[must_use]
    pub const fn growth_max(self) -> u64 {
        if self.limit_bytes == 0 { u64::MAX } else { self.limit_bytes / 5 * 4 }
    }
}

/// What is known here.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What this member's zones may take; zero: not limited.
    limit_bytes: u64,
    /// The last reports of the other members to this leader.
    members: BTreeMap<NodeId, MemoryFigures>,
    /// The last report: the leader that got it, the term, and the time.
    last_report: Option<(NodeId, u64, u64)>,
}

impl Memory {
    /// Whether zones that take so much here may not grow. `is_alive` tells members that live from those that do not.
    pub(crate) fn is_short(&self, used_bytes: u64, is_alive: impl Fn(NodeId) -> bool) -> bool {
        let own = MemoryFigures { used_bytes, limit_bytes: self.limit_bytes };
        let others = self.members.iter().filter(|(id, _)| is_alive(**id)).map(|(_, figures)| *figures);
        // Their reports are old, but they have at least the zones that are here.
        let is_full = |of: MemoryFigures| of.used_bytes.max(used_bytes) >= of.growth_max();
        is_full(own) || others.into_iter().any(is_full)
    }

    /// What evaluation may copy before it is applied.
    pub(crate) fn copied_in_flight_max(&self) -> u64 {
        match self.limit_bytes {
            0 => COPIED_IN_FLIGHT_BYTES_MAX,
            limit => COPIED_IN_FLIGHT_BYTES_MAX.min(limit / 8),
        }
    }
}

impl Replica {
    /// The shell says how much memory the zones may take.
    pub(crate) const fn handle_memory(&mut self, limit_bytes: u64) {
        self.memory.limit_bytes = limit_bytes;
    }

    /// What the zones of this member take.
    #[must_use]
    pub fn memory_figures(&self) -> MemoryFigures {
        MemoryFigures { used_bytes: self.machine.zones.stats().used_bytes as u64, limit_bytes: self.memory.limit_bytes }
    }

    /// What a member's zones take, as far as it is known here.
    pub(crate) fn memory_of(&self, id: NodeId) -> Option<MemoryFigures> {
        if id == self.driver.id() {
            return Some(self.memory_figures()).filter(|figures| figures.limit_bytes > 0);
        }
        self.memory.members.get(&id).copied()
    }

    /// Tells the leader, a new one at once.
    pub(crate) fn tick_memory(&mut self) {
        // A member of software before that level could make nothing of the frame.
        if self.machine.settings.feature_level() < 3 || self.memory.limit_bytes == 0 {
            return;
        }
        let own = self.driver.id();
        let Some(leader) = self.driver.leader().filter(|&leader| leader != own) else { return };
        let (term, now) = (self.driver.term(), self.now.monotonic_ms);
        let is_recent = |(to, of, at): (NodeId, u64, u64)| (to, of) == (leader, term) && now < at + MEMORY_REPORT_MS;
        if !self.memory.last_report.is_some_and(is_recent) {
            self.memory.last_report = Some((leader, term, now));
            self.send(leader, &Frame::Memory(self.memory_figures()));
        }
    }

    pub(crate) fn handle_memory_of(&mut self, from: NodeId, figures: MemoryFigures) {
        if self.driver.is_leader() && self.machine.settings.is_member(from) {
            self.memory.members.insert(from, figures);
            let settings = &self.machine.settings;
            self.memory.members.retain(|&id, _| settings.is_member(id));
        }
    }

    /// The leader changed, so the reports to this one are void.
    pub(crate) fn reset_memory(&mut self) {
        self.memory.members.clear();
    }

    /// Gives memory of the zones that is free back to the operating system, if there is much of it. To be called while
    /// nothing else is to be done.
    pub fn release_memory(&mut self) {
        self.machine.release_memory();
    }
}
