//! Checkpoints of this replica: written when the log has grown, offered to members that lag, fetched from a leader.
//!
//! ```text
//!   due --> frozen state --> CheckpointWriter --> durable --> offered, log compacted
//!   MsgSnapshot (held back) --> CheckpointFetcher --> durable --> loaded --> stepped --> one log record --> in force
//! ```

mod install;

use crate::checkpoint::{
    CheckpointHeader, CheckpointServer, CheckpointWriter, INCOMING_FILE, Manifest, ServerOutput, Table, Written,
    checkpoint_file,
};
use crate::disk::{DiskJob, DiskOp, DiskQueue};
use crate::io::{AdminError, AdminReply, NodeId, Output};
use crate::limits::CHECKPOINT_WAIT_MS;
use crate::machine::FrozenState;
use crate::peer::Frame;
use crate::replica::Replica;
pub(crate) use install::Incoming;
use raft::eraftpb::Snapshot;
use std::collections::BTreeMap;

/// A transfer fails if its receiver is silent for this long.
const RECEIVER_SILENT_MS: u64 = 15_000;
/// A transfer fails if its receiver does not request a block this long after the manifest was sent, which may be lost.
const MANIFEST_TIMEOUT_MS: u64 = 2_000;
/// How long after the start a partial checkpoint is kept that no leader offers.
const REMAINS_KEPT_MS: u64 = 60_000;

/// Checkpoints being written, sent and received.
#[derive(Default)]
pub(crate) struct Transfers {
    writer: Option<Box<Writing>>,
    /// Checkpoints abandoned since the last complete one, because they took too long.
    abandoned: u32,
    /// Bytes of the newest checkpoint.
    last_bytes: u64,
    /// A checkpoint at this index or later is needed.
    wanted: Option<u64>,
    /// The file of the newest checkpoint if it is damaged, until another one replaces it.
    damaged: Option<String>,
    server: CheckpointServer,
    /// Members that got a manifest, and the time at which the transfer fails unless they respond.
    sent: BTreeMap<NodeId, u64>,
    incoming: Incoming,
    /// An earlier process left a part of a leader's checkpoint.
    pub(crate) has_remains: bool,
    /// Requests that wait for a checkpoint: request id, the index that it must contain, and the deadline.
    checkpoint_waiters: Vec<(u64, u64, u64)>,
    /// Files to remove once the log has a durable record that no longer refers to them.
    to_remove: Vec<String>,
    /// The ticket of that record.
    remove_after: Option<u64>,
}

/// A checkpoint that is being written.
struct Writing {
    writer: CheckpointWriter,
    /// `None` once it was abandoned: its memory is free, and only the last disk job is still running.
    state: Option<FrozenState>,
    /// Bytes of the log after the newest checkpoint when this one was started.
    bytes_at_start: u64,
    /// Bytes that zones had retired when it was started. Everything retired since then stays in memory for it.
    retired_at_start: u64,
}

/// The manifest as raft carries it.
fn snapshot_of(manifest: &Manifest) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = manifest.header.index;
    metadata.term = manifest.header.term;
    metadata.set_conf_state(manifest.header.members.clone());
    snapshot.data = manifest.encode().into();
    snapshot
}

impl Transfers {
    /// Administrators that wait for a checkpoint.
    pub(crate) const fn waiters(&self) -> usize {
        self.checkpoint_waiters.len()
    }

    /// Has files removed once a record is durable that is polled from now on.
    pub(crate) fn schedule_removal(&mut self, files: Vec<String>) {
        if !files.is_empty() {
            self.to_remove.extend(files);
            self.remove_after = None;
        }
    }
}

impl Replica {
    /// An administrator wants a checkpoint of what is applied now.
    pub(crate) fn request_checkpoint(&mut self, request_id: u64) {
        self.transfers.checkpoint_waiters.push((
            request_id,
            self.machine.applied.0,
            self.now.monotonic_ms + CHECKPOINT_WAIT_MS,
        ));
        self.answer_checkpoint_waiters();
    }

    fn answer_checkpoint_waiters(&mut self) {
        if self.transfers.checkpoint_waiters.is_empty() {
            return;
        }
        let (newest, now) = (self.driver.log().checkpoint(), self.now.monotonic_ms);
        let mut waiters = core::mem::take(&mut self.transfers.checkpoint_waiters);
        waiters.retain(|&(request_id, index, until_ms)| {
            let result = if self.is_fenced() {
                Err(AdminError::Fenced)
            } else if newest.index >= index {
                Ok(AdminReply::Checkpoint { file: checkpoint_file(&newest), index: newest.index })
            } else if now >= until_ms || self.is_stopping() {
                Err(AdminError::Busy)
            } else {
                // Also after one that was given up.
                self.transfers.wanted = self.transfers.wanted.max(Some(index));
                return true;
            };
            self.admin_done(request_id, result);
            false
        });
        self.transfers.checkpoint_waiters = waiters;
    }

    /// Offers a durable checkpoint to members that lag.
    pub(crate) fn offer_checkpoint(&mut self, manifest: Manifest, table: Table) {
        self.transfers.last_bytes = manifest.file_bytes();
        self.driver.set_offer(Some(snapshot_of(&manifest)));
        self.transfers.server.offer(manifest, table);
    }

    /// Whether there is something of a checkpoint to be written that the disk was not given yet.
    pub(crate) fn has_checkpoint_to_write(&self) -> bool {
        let writing = self.transfers.writer.as_ref();
        writing.is_some_and(|writing| writing.state.is_some() && !writing.writer.is_under_way())
    }

    /// Moves the checkpoints under way; the one that is being written by one piece at leisure, or a block when it would
    /// be late otherwise.
    pub(crate) fn drive_transfers(&mut self, is_idle: bool) {
        let mut is_urgent = false;
        if let Some(writing) = &self.transfers.writer {
            // A checkpoint from a leader replaces the zones, whose counter starts at zero.
            let retired_bytes = self.machine.zones.retired_bytes_total().saturating_sub(writing.retired_at_start);
            let (log, begun, abandoned) = (self.driver.log(), writing.bytes_at_start, self.transfers.abandoned);
            let is_late = log.is_checkpoint_late(begun, retired_bytes, abandoned);
            is_urgent = log.is_checkpoint_urgent(begun, retired_bytes, abandoned);
            if is_late && writing.state.is_some() {
                self.transfers.abandoned += 1;
                self.abandon_checkpoint();
            }
        }
        if is_urgent || is_idle {
            self.write_checkpoint(is_urgent);
        }
        while let Some(output) = self.transfers.server.poll(&mut self.tickets) {
            match output {
                ServerOutput::Read(read) => self.out.push_back(Output::ReadFile(read)),
                ServerOutput::Send { to, frame } => {
                    let mut bytes = Vec::new();
                    frame.encode(&mut bytes);
                    self.send(to, &Frame::Checkpoint(bytes));
                }
            }
        }
        self.drive_incoming();
    }

    fn write_checkpoint(&mut self, is_urgent: bool) {
        let Some(writing) = &mut self.transfers.writer else { return };
        let Some(state) = &mut writing.state else { return };
        let job = match is_urgent {
            true => writing.writer.poll(state, &mut self.tickets),
            false => writing.writer.poll_step(state, &mut self.tickets).into_job(),
        };
        self.out.extend(job.map(Output::Disk));
    }

    pub(crate) fn begin_checkpoint_when_due(&mut self) {
        let newest = self.driver.log().checkpoint().index;
        if let Some(wanted) = self.driver.take_checkpoint_wanted() {
            self.transfers.wanted = Some(wanted);
        }
        let is_wanted = self.transfers.wanted.is_some_and(|wanted| wanted > newest);
        let is_replacing = self.transfers.damaged.is_some();
        let is_due = is_wanted || is_replacing || self.driver.log().is_checkpoint_due(self.transfers.last_bytes);
        let (index, term) = self.machine.applied;
        // While nothing is written there is no later state, and the same one again is as good as the damaged one was.
        let is_newer = index > newest || is_replacing && index == newest;
        // A state that is not what a majority has must not outlive this process. What a process before this one left
        // goes first, once the log is durable: a file of that may have the name of the one to be written.
        if self.is_fenced()
            || !self.driver.log().is_durable()
            || !is_due
            || self.transfers.writer.is_some()
            || !is_newer
            || self.transfers.incoming.is_under_way()
        {
            return;
        }
        self.transfers.wanted = None;
        let header = CheckpointHeader {
            cluster: self.config.cluster_id,
            group: u32::from(self.config.group),
            index,
            term,
            feature_level: self.machine.settings.feature_level(),
            members: self.driver.conf_state(),
        };
        let state = Some(self.machine.freeze());
        let bytes_at_start = self.driver.log().bytes_after_checkpoint();
        let retired_at_start = self.machine.zones.retired_bytes_total();
        let writer = CheckpointWriter::new(header);
        self.transfers.writer = Some(Box::new(Writing { writer, state, bytes_at_start, retired_at_start }));
    }

    /// Abandons the checkpoint that is being written. The frozen state is released immediately.
    fn abandon_checkpoint(&mut self) {
        let Some(writing) = &mut self.transfers.writer else { return };
        if writing.state.take().is_some() {
            self.counters.checkpoints_abandoned += 1;
        }
        if !writing.writer.is_under_way() {
            self.transfers.writer = None;
        }
    }

    /// This replica's state is wrong, nobody knows since when: no checkpoint of it is written or given away.
    pub(crate) fn distrust_checkpoints(&mut self) {
        self.abandon_checkpoint();
        self.driver.set_offer(None);
    }

    /// Takes the answer to a job of the bulk queue; whether it was about a checkpoint.
    pub(crate) fn transfer_persisted(&mut self, ticket: u64) -> bool {
        if self.incoming_persisted(ticket) {
            return true;
        }
        let Some(writing) = &mut self.transfers.writer else { return false };
        let was_abandoned = writing.state.is_none();
        let is_distrusted = self.fenced || self.pending_fatal.is_some();
        // A leader's checkpoint was installed meanwhile: the log refers to that one, which must stay the newest.
        let installed = self.driver.log().checkpoint();
        let first_unused = installed.index + u64::from(self.transfers.damaged.is_none());
        match writing.writer.persisted(ticket) {
            Written::NotOurs => false,
            Written::Whole(whole) if is_distrusted || whole.0.header.index < first_unused => {
                self.transfers.writer = None;
                if whole.0.reference() != installed {
                    self.remove_files(vec![whole.0.file()]);
                }
                true
            }
            Written::More if was_abandoned => {
                self.transfers.writer = None;
                true
            }
            Written::More => true,
            Written::Whole(whole) => {
                let (manifest, table) = *whole;
                self.transfers.writer = None;
                self.counters.checkpoints_written += 1;
                self.driver.log_mut().checkpointed(manifest.reference());
                self.note_newest(&manifest);
                self.offer_checkpoint(manifest, table);
                self.compact();
                true
            }
        }
    }

    /// A checkpoint is there. It takes the place of a damaged one; of the same state it has the same name.
    fn note_newest(&mut self, newest: &Manifest) {
        self.transfers.abandoned = 0;
        if let Some(file) = self.transfers.damaged.take().filter(|file| *file != newest.file()) {
            self.transfers.schedule_removal(vec![file]);
        }
    }

    /// Lets go of what the newest checkpoint holds, but for what stays behind it and what a transfer needs.
    fn compact(&mut self) {
        let now = self.now.monotonic_ms;
        let pinned = self.transfers.server.pinned_index(now);
        let target = self.driver.log().compact_target(pinned);
        self.driver.log_mut().compact(target);
        let to_remove = self.transfers.server.retire(now);
        if planted!(OldCheckpointRemovedEarly) {
            return self.remove_files(to_remove);
        }
        self.transfers.schedule_removal(to_remove);
    }

    /// A job of the log was polled: a record in it refers to the newest checkpoint.
    pub(crate) fn note_log_job(&mut self, ticket: u64) {
        if !self.transfers.to_remove.is_empty() && self.transfers.remove_after.is_none() {
            self.transfers.remove_after = Some(ticket);
        }
    }

    /// A job of the log is durable: files that nothing refers to may go.
    pub(crate) fn remove_scheduled(&mut self, ticket: u64) {
        if self.transfers.remove_after.is_some_and(|after| ticket >= after) {
            self.transfers.remove_after = None;
            let files = core::mem::take(&mut self.transfers.to_remove);
            self.remove_files(files);
        }
    }

    pub(crate) fn remove_files(&mut self, files: Vec<String>) {
        if files.is_empty() {
            return;
        }
        let mut ops: Vec<_> = files.into_iter().map(|file| DiskOp::Remove { file }).collect();
        ops.push(DiskOp::SyncDir);
        let ticket = self.tickets.draw();
        self.out.push_back(Output::Disk(DiskJob { queue: DiskQueue::Bulk, ticket, ops }));
    }

    /// A member was sent a manifest.
    pub(crate) fn note_snapshot_sent(&mut self, to: NodeId) {
        self.transfers.sent.insert(to, self.now.monotonic_ms + MANIFEST_TIMEOUT_MS);
    }

    /// A member asks for blocks.
    pub(super) fn note_snapshot_heard(&mut self, from: NodeId) {
        if let Some(until_ms) = self.transfers.sent.get_mut(&from) {
            *until_ms = self.now.monotonic_ms + RECEIVER_SILENT_MS;
        }
    }

    /// Handles a member's report about a checkpoint transfer. Raft needs it, or it would wait forever. A report without
    /// a transfer is ignored.
    pub(crate) fn handle_snapshot_result(&mut self, from: NodeId, ok: bool) {
        let was_sent = self.transfers.sent.remove(&from).is_some();
        if was_sent && self.driver.is_leader() {
            self.driver.report_snapshot(from, ok);
        }
    }

    pub(crate) fn tick_transfers(&mut self) {
        let now = self.now.monotonic_ms;
        let is_silent = |(&id, &until_ms): (&NodeId, &u64)| (now >= until_ms).then_some(id);
        let silent: Vec<_> = self.transfers.sent.iter().filter_map(is_silent).collect();
        for id in silent {
            self.handle_snapshot_result(id, false);
        }
        self.tick_incoming();
        self.answer_checkpoint_waiters();
        if self.transfers.has_remains && self.running_ms >= REMAINS_KEPT_MS && !self.transfers.incoming.is_under_way() {
            self.transfers.has_remains = false;
            self.remove_files(vec![INCOMING_FILE.to_owned()]);
        }
    }

    pub(crate) fn checkpoint_peer_gone(&mut self, id: NodeId) {
        self.transfers.server.peer_gone(id);
        self.incoming_peer_gone(id);
        if self.transfers.sent.contains_key(&id) {
            self.handle_snapshot_result(id, false);
        }
    }

    /// Takes what the disk read for a checkpoint.
    pub(crate) fn transfer_read(&mut self, ticket: u64, bytes: Vec<u8>) {
        let bytes = match self.incoming_read(ticket, bytes) {
            Ok(()) => return,
            Err(bytes) => bytes,
        };
        let Err(damage) = self.transfers.server.file_read(ticket, bytes) else { return };
        if damage.file != checkpoint_file(&self.driver.log().checkpoint()) {
            return self.transfers.schedule_removal(vec![damage.file]);
        }
        // The newest is what members that lag are offered, and what this one would start from: another must take its
        // place.
        self.driver.set_offer(None);
        self.transfers.damaged = Some(damage.file);
    }
}
