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

use crate::command::Answer;
use crate::disk::DiskQueue;
use crate::io::NodeId;
use crate::limits::{DISK_FRESH_MS, DISK_REPORT_MS};
use crate::peer::Frame;
use crate::replica::Replica;
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

impl Replica {
    pub(crate) fn handle_disk_full(&mut self, queue: DiskQueue) {
        *self.full_of(queue) = true;
    }

    /// The waiting job is running again. The wait was not a disk fault.
    pub(crate) fn handle_disk_room(&mut self, queue: DiskQueue) {
        *self.full_of(queue) = false;
        if queue == DiskQueue::Log {
            let now_ms = self.running_ms;
            self.unwritten_ms.iter_mut().for_each(|since_ms| *since_ms = now_ms);
        }
    }

    const fn full_of(&mut self, queue: DiskQueue) -> &mut bool {
        match queue {
            DiskQueue::Log => &mut self.full.log,
            DiskQueue::Bulk => &mut self.full.bulk,
        }
    }

    /// Whether a record of the log is waiting for room.
    pub(crate) const fn is_log_full(&self) -> bool {
        self.full.log
    }

    /// Whether any job is waiting for room.
    pub(crate) const fn is_disk_full(&self) -> bool {
        self.full.log || self.full.bulk
    }

    /// Whether the rest of the log is reserved for votes and the entries of another leader.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.full.log || self.full.bulk && self.driver.log().is_near_its_end()
    }

    /// While the log of a starting member is full and it knows no leader, it answers queries from the log that it has
    /// read. All those entries are committed, so a majority has them on disk.
    pub(crate) fn tick_without_log(&mut self) {
        self.serve_stale_when_due();
        self.tick_stop();
    }

    /// Reports to the leader, or hands over if this member leads.
    pub(crate) fn tick_full(&mut self) {
        if self.driver.is_leader() {
            self.hand_over_if_short();
        } else if self.reports_room() {
            self.report_room();
        }
    }

    fn reports_room(&self) -> bool {
        self.machine.settings.feature_level() >= REPORTED_FROM_LEVEL
    }

    fn report_room(&mut self) {
        let Some(leader) = self.driver.leader() else { return };
        let (term, is_short, now_ms) = (self.driver.term(), self.is_short_of_room(), self.now.monotonic_ms);
        let is_recent = |(to, of, what, at_ms): (NodeId, u64, bool, u64)| {
            (to, of, what) == (leader, term, is_short) && now_ms < at_ms + DISK_REPORT_MS
        };
        if !self.full.last_report.is_some_and(is_recent) {
            self.full.last_report = Some((leader, term, is_short, now_ms));
            self.send(leader, &Frame::Disk { is_short });
        }
    }

    pub(crate) fn handle_disk_of(&mut self, from: NodeId, is_short: bool) {
        if self.driver.is_leader() && self.machine.settings.is_member(from) {
            self.full.members.insert(from, (is_short, self.now.monotonic_ms));
            let settings = &self.machine.settings;
            self.full.members.retain(|&id, _| settings.is_member(id));
        }
    }

    /// Clears the reports of other members after a change of term or role: they were for another leader.
    pub(crate) fn reset_full(&mut self) {
        self.full.members.clear();
    }

    /// What a member recently reported; `None` without a recent report.
    fn reported_short(&self, id: NodeId) -> Option<bool> {
        let &(is_short, at_ms) = self.full.members.get(&id)?;
        (self.now.monotonic_ms < at_ms + DISK_FRESH_MS).then_some(is_short)
    }

    /// Returns a voter that responds, has room and is not fenced.
    fn successor_with_room(&self) -> Option<NodeId> {
        let has_room = |&id: &NodeId| {
            self.is_alive(id) && self.reported_short(id) == Some(false) && !self.progress.is_differing(id)
        };
        let voters = self.driver.incoming_voters().into_iter().filter(has_room);
        voters.filter(|&id| id != self.driver.id()).max_by_key(|&id| self.driver.matched(id))
    }

    /// Whether a leader should not propose. At feature levels without these reports, it does not know which members
    /// have room. So it proposes until its log is full.
    fn is_leader_short(&self) -> bool {
        self.full.log || self.reports_room() && self.is_short_of_room()
    }

    fn hand_over_if_short(&mut self) {
        if self.is_leader_short()
            && !self.driver.is_transferring()
            && let Some(to) = self.successor_with_room()
        {
            self.counters.disk_full_transfers += 1;
            self.driver.transfer_leader(to);
        }
    }

    /// Whether this leader proposes nothing: it has no room and no voter can take over, or the members with room are
    /// not a majority.
    pub(crate) fn refuses_for_disk(&self) -> bool {
        if self.is_leader_short() {
            return !self.driver.is_transferring() && self.successor_with_room().is_none();
        }
        if !self.full.members.values().any(|&(is_short, _)| is_short) {
            return false;
        }
        let mut voters = self.driver.voters();
        voters.retain(|&id| self.reported_short(id) != Some(true));
        !self.driver.is_majority(&voters)
    }

    /// Refuses the updates that are waiting for evaluation. They were certainly not proposed.
    pub(crate) fn refuse_for_disk(&mut self) {
        let origins = self.head.drain_for_log();
        self.counters.refused_for_disk += origins.len() as u64;
        // Members at the first feature level do not know the other response.
        let is_known = self.machine.settings.feature_level() >= 2;
        self.reply_all(origins, if is_known { Answer::Overloaded } else { Answer::NotProposed });
    }
}
