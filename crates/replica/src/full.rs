//! Full disks: a member without room keeps answering queries, and takes updates again when there is room.
//!
//! ```text
//!   shell --Input::DiskFull, Input::DiskRoom--> member --Frame::Disk--> leader: hands over, or refuses proposals
//! ```
//! The log writes into files that were filled with zeros before. So a full disk first stops the bulk queue: checkpoints
//! and the next segment. From then on, a member has only the rest of its segment. With less than a quarter left, the
//! log is **short of room**: the member proposes nothing, and hands over to a voter that has room. The rest of the
//! segment is for votes, elections and the entries of another leader. When the segment is full too, the log is
//! **full**: the member lags, and does not campaign.

use crate::context::{Context, Outputs};
use crate::disk::DiskQueue;
use crate::io::NodeId;
use crate::limits::{DISK_FRESH_MS, DISK_REPORT_MS};
use crate::peer::Frame;
use crate::progress::Progress;
use crate::raft::Driver;
use std::collections::BTreeMap;

/// The feature level at which members report to the leader whether they are short of room.
const REPORTED_FROM_LEVEL: u32 = 5;

/// What this member knows about full disks.
#[derive(Debug, Default)]
pub(crate) struct FullDisk {
    /// A job of the log queue is waiting for room on this member's disk.
    log: bool,
    /// A job of the bulk queue is waiting for room on this member's disk.
    bulk: bool,
    /// The last report of each other member to this leader, and its time.
    members: BTreeMap<NodeId, (bool, u64)>,
    /// The last report of this member: the leader that got it, the term, whether the log was short of room, and the
    /// time.
    last_report: Option<(NodeId, u64, bool, u64)>,
}

impl FullDisk {
    /// A job of this queue waits for room, or runs again.
    pub(crate) const fn set(&mut self, queue: DiskQueue, is_full: bool) {
        match queue {
            DiskQueue::Log => self.log = is_full,
            DiskQueue::Bulk => self.bulk = is_full,
        }
    }

    /// Whether a record of the log is waiting for room.
    pub(crate) const fn is_log_full(&self) -> bool {
        self.log
    }

    /// Whether any job is waiting for room.
    pub(crate) const fn is_any_full(&self) -> bool {
        self.log || self.bulk
    }

    /// Whether the rest of the log is reserved for votes and the entries of another leader.
    pub(crate) fn is_short_of_room(&self, driver: &Driver) -> bool {
        self.log || self.bulk && driver.log().is_near_its_end()
    }

    /// Reports to the leader. If this member leads and is short of room, returns the voter to hand over to.
    pub(crate) fn tick(&mut self, context: &Context<'_>, progress: &Progress, outputs: &mut Outputs) -> Option<NodeId> {
        if context.driver.is_leader() {
            let may_hand_over = !context.driver.is_transferring() && !planted!(FullLeaderStays);
            let must_hand_over = self.is_leader_short(context) && may_hand_over;
            return must_hand_over.then(|| self.successor_with_room(context, progress)).flatten();
        }
        if reports_room(context) {
            self.report(context, outputs);
        }
        None
    }

    fn report(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let Some(leader) = context.driver.leader() else { return };
        let (term, is_short, now_ms) = (context.driver.term(), self.is_short_of_room(context.driver), context.now_ms());
        let is_recent = |(to, of, what, at_ms): (NodeId, u64, bool, u64)| {
            (to, of, what) == (leader, term, is_short) && now_ms < at_ms + DISK_REPORT_MS
        };
        if !self.last_report.is_some_and(is_recent) {
            self.last_report = Some((leader, term, is_short, now_ms));
            outputs.send(leader, &Frame::Disk { is_short });
        }
    }

    /// Notes a member's report to this leader.
    pub(crate) fn handle_report(&mut self, context: &Context<'_>, from: NodeId, is_short: bool) {
        let settings = context.settings();
        if context.driver.is_leader() && settings.is_member(from) {
            self.members.insert(from, (is_short, context.now_ms()));
            self.members.retain(|&id, _| settings.is_member(id));
        }
    }

    /// Clears the reports of other members after a change of term or role: they were for another leader.
    pub(crate) fn reset(&mut self) {
        self.members.clear();
    }

    /// What a member recently reported; `None` without a recent report.
    fn reported_short(&self, id: NodeId, now_ms: u64) -> Option<bool> {
        let &(is_short, at_ms) = self.members.get(&id)?;
        (now_ms < at_ms + DISK_FRESH_MS).then_some(is_short)
    }

    /// Returns a voter that responds, has room and is not fenced.
    fn successor_with_room(&self, context: &Context<'_>, progress: &Progress) -> Option<NodeId> {
        let now_ms = context.now_ms();
        let has_room = |&id: &NodeId| {
            progress.is_alive(id, now_ms)
                && self.reported_short(id, now_ms) == Some(false)
                && !progress.is_differing(id)
        };
        let voters = context.driver.incoming_voters().into_iter().filter(has_room);
        voters.filter(|&id| id != context.own()).max_by_key(|&id| context.driver.matched(id))
    }

    /// Whether a leader should not propose. At feature levels without these reports, it does not know which members
    /// have room. So it proposes until its log is full.
    fn is_leader_short(&self, context: &Context<'_>) -> bool {
        self.log || reports_room(context) && self.is_short_of_room(context.driver)
    }

    /// Whether this leader proposes nothing: it has no room and no voter can take over, or the members with room are
    /// not a majority.
    pub(crate) fn refuses_proposals(&self, context: &Context<'_>, progress: &Progress) -> bool {
        if self.is_leader_short(context) {
            return !context.driver.is_transferring() && self.successor_with_room(context, progress).is_none();
        }
        if !self.members.values().any(|&(is_short, _)| is_short) {
            return false;
        }
        let mut voters = context.driver.voters();
        voters.retain(|&id| self.reported_short(id, context.now_ms()) != Some(true));
        !context.driver.is_majority(&voters)
    }
}

fn reports_room(context: &Context<'_>) -> bool {
    context.settings().feature_level() >= REPORTED_FROM_LEVEL
}
