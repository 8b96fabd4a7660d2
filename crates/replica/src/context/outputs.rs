//! What components produce: outputs for the shell, numbers of disk jobs, and counts of events.

use crate::disk::{DiskJob, DiskOp, DiskQueue, Tickets};
use crate::io::{AdminError, AdminReply, NodeId, Output, Verdict};
use crate::machine::InvariantViolations;
use crate::peer::Frame;
use crate::update::LimitReached;
use std::collections::VecDeque;

/// Event counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches that raft did not accept.
    pub proposals_dropped: u64,
    /// Checkpoints written.
    pub checkpoints_written: u64,
    /// Checkpoints abandoned because they took too long, or because the state was wrong.
    pub checkpoints_abandoned: u64,
    /// Checkpoints from a leader that replaced the state.
    pub checkpoints_installed: u64,
    /// Checkpoint blocks that were on disk at the start and did not have to be fetched again.
    pub checkpoint_blocks_kept: u64,
    /// Number of times that the leadership was handed over because the disk hung.
    pub disk_hung_transfers: u64,
    /// Number of times that the leadership was handed over because the disk was full.
    pub disk_full_transfers: u64,
    /// Updates and commands that this leader refused because its disk, or the disks of too many members, had no room.
    pub refused_for_disk: u64,
    /// Updates of own clients that were refused because the leader's queue was full.
    pub updates_overloaded: u64,
    /// Forwarded commands that arrived again and were ignored.
    pub forwards_repeated: u64,
    /// Frames that were dropped because their sender is not a known member.
    pub non_member_frames: u64,
    /// Messages that raft did not get because they were late, or because their sender is not a known voter.
    pub messages_ignored: u64,
    /// Votes withheld because this member's log may lack acknowledged entries.
    pub votes_withheld: u64,
    /// Updates and imports that this leader refused because a member has no memory for larger zones.
    pub refused_for_memory: u64,
    /// Updates that this leader refused because of a limit, in the order of [`LimitReached::ALL`].
    pub limits_reached: [u64; LimitReached::ALL.len()],
}

/// The request id of commands without a waiting client. The shell numbers its requests from zero.
pub(crate) const NO_REQUEST: u64 = u64::MAX;

/// What every component may write.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// Outputs that the shell has not polled yet, oldest first.
    queue: VecDeque<Output>,
    /// The Raft group, which every frame names.
    group: u16,
    pub(crate) tickets: Tickets,
    pub(crate) counters: Counters,
    /// Violations by peers. The machine counts those at evaluation and application.
    pub(crate) invariant_violations: InvariantViolations,
}

impl Outputs {
    pub(crate) fn new(group: u16) -> Self {
        Self {
            queue: VecDeque::new(),
            group,
            tickets: Tickets::default(),
            counters: Counters::default(),
            invariant_violations: InvariantViolations::default(),
        }
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    /// The oldest output that the shell has not polled yet.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends a frame to a member.
    pub(crate) fn send(&mut self, to: NodeId, frame: &Frame) {
        let (channel, frame) = (frame.channel(), frame.encode(self.group));
        self.push(Output::Send { to, channel, frame });
    }

    /// Tells the shell the outcome of a client's update.
    pub(crate) fn verdict(&mut self, request_id: u64, verdict: Verdict) {
        self.push(Output::UpdateDone { request_id, verdict });
    }

    /// Tells the shell the result of an administrator's command.
    pub(crate) fn admin_done(&mut self, request_id: u64, result: Result<AdminReply, AdminError>) {
        // Nobody waits for the result of a clean-up.
        if request_id != NO_REQUEST {
            self.push(Output::AdminDone { request_id, result });
        }
    }

    /// Removes files after the jobs of the bulk queue that were issued before.
    pub(crate) fn remove_files(&mut self, files: Vec<String>) {
        if files.is_empty() {
            return;
        }
        let mut ops: Vec<_> = files.into_iter().map(|file| DiskOp::Remove { file }).collect();
        ops.push(DiskOp::SyncDir);
        let ticket = self.tickets.draw();
        self.push(Output::Disk(DiskJob { queue: DiskQueue::Bulk, ticket, ops }));
    }

    /// Counts a frame that a member should not have sent.
    pub(crate) const fn refuse(&mut self) {
        self.invariant_violations.refused_messages += 1;
    }
}
