//! Memory of the zones: how much each member has, and whether zones may grow.
//!
//! A member that runs out of memory is killed, and all members hold the same zones. So every member reports its
//! zones' memory and limit to the leader, which refuses growth before the smallest limit is reached. Deletions are
//! always executed.
//!
//! ```text
//!   shell --Input::Memory--> member --Frame::Memory--> leader: is_short?
//! ```

use crate::context::{Context, Outputs};
use crate::io::{MemoryFigures, NodeId};
use crate::limits::{COPIED_IN_FLIGHT_BYTES_MAX, MEMORY_REPORT_MS};
use crate::machine::Machine;
use crate::peer::Frame;
use std::collections::BTreeMap;

/// What this member knows about memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The limit of this member's zones; zero means none.
    limit_bytes: u64,
    /// The last reports of the other members to this leader.
    members: BTreeMap<NodeId, MemoryFigures>,
    /// The last report: the leader that got it, the term, and the time.
    last_report: Option<(NodeId, u64, u64)>,
}

impl Memory {
    /// Whether zones must not grow, given their size on this member. `is_alive` tells which other members count.
    pub(crate) fn is_short(&self, used_bytes: u64, is_alive: impl Fn(NodeId) -> bool) -> bool {
        let own = MemoryFigures { used_bytes, limit_bytes: self.limit_bytes };
        let others = self.members.iter().filter(|(id, _)| is_alive(**id)).map(|(_, figures)| *figures);
        // Their reports are old, but their zones are at least as large as here.
        let is_full = |of: MemoryFigures| of.used_bytes.max(used_bytes) >= of.growth_max();
        is_full(own) || others.into_iter().any(is_full) && !planted!(OnlyOwnMemoryCounts)
    }

    /// The bytes that evaluation may copy ahead of application.
    pub(crate) fn copied_in_flight_max(&self) -> u64 {
        match self.limit_bytes {
            0 => COPIED_IN_FLIGHT_BYTES_MAX,
            limit => COPIED_IN_FLIGHT_BYTES_MAX.min(limit / 8),
        }
    }

    /// Sets the limit of this member's zones.
    pub(crate) const fn set_limit(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
    }

    /// Memory use and limit of this member's zones.
    pub(crate) fn figures(&self, machine: &Machine) -> MemoryFigures {
        MemoryFigures { used_bytes: machine.zones.stats().used_bytes as u64, limit_bytes: self.limit_bytes }
    }

    /// Memory use and limit of a member's zones, if known.
    pub(crate) fn figures_of(&self, context: &Context<'_>, id: NodeId) -> Option<MemoryFigures> {
        if id == context.own() {
            return Some(self.figures(context.machine)).filter(|figures| figures.limit_bytes > 0);
        }
        self.members.get(&id).copied()
    }

    /// Reports to the leader at an interval, and to a new leader immediately.
    pub(crate) fn tick(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        // A member with older software does not know this frame.
        if context.settings().feature_level() < 3 || self.limit_bytes == 0 {
            return;
        }
        let own = context.own();
        let Some(leader) = context.driver.leader().filter(|&leader| leader != own) else { return };
        let (term, now) = (context.driver.term(), context.now_ms());
        let is_recent = |(to, of, at): (NodeId, u64, u64)| (to, of) == (leader, term) && now < at + MEMORY_REPORT_MS;
        if !self.last_report.is_some_and(is_recent) {
            self.last_report = Some((leader, term, now));
            outputs.send(leader, &Frame::Memory(self.figures(context.machine)));
        }
    }

    /// Notes a member's report to this leader.
    pub(crate) fn handle_report(&mut self, context: &Context<'_>, from: NodeId, figures: MemoryFigures) {
        let settings = context.settings();
        if context.driver.is_leader() && settings.is_member(from) {
            self.members.insert(from, figures);
            self.members.retain(|&id, _| settings.is_member(id));
        }
    }

    /// The leader changed, so the reports to this one are void.
    pub(crate) fn reset(&mut self) {
        self.members.clear();
    }
}
