//! Checkpoints of this replica: written when the log has grown, offered to members that lag, fetched from a leader.
//!
//! ```text
//!   due --> frozen state --> CheckpointWriter --> durable --> offered, log compacted
//!   MsgSnapshot (held back) --> CheckpointFetcher --> durable --> loaded --> stepped --> one log record --> in force
//! ```

mod incoming;
mod install;

use crate::checkpoint::{
    CheckpointHeader, CheckpointServer, CheckpointWriter, INCOMING_FILE, Manifest, ServerOutput, Table, Written,
    checkpoint_file,
};
use crate::context::{Context, Outputs};
use crate::io::{AdminError, AdminReply, NodeId, Output};
use crate::limits::CHECKPOINT_WAIT_MS;
use crate::log::CheckpointRef;
use crate::machine::FrozenState;
use crate::peer::Frame;
use incoming::Incoming;
use raft::eraftpb::{Message, Snapshot};
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
    /// The log restarts after a checkpoint. The state is replaced once that is durable.
    pub(crate) is_installing: bool,
}

/// A checkpoint of this member's state that is complete.
pub(crate) struct NewCheckpoint {
    /// The log refers to it from now on.
    pub(crate) reference: CheckpointRef,
    /// Raft offers it to members that lag.
    pub(crate) offer: Snapshot,
    /// A transfer needs the entries after this index.
    pub(crate) pinned: Option<u64>,
}

/// The effect of a read for a checkpoint.
pub(crate) enum CheckpointRead {
    /// Nothing is left to do.
    Done,
    /// The leader's checkpoint is loaded. Raft may see the message that announced it.
    Loaded(NodeId, Box<Message>),
    /// The newest checkpoint of this member is damaged. It must not be offered any longer.
    NewestDamaged,
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

    /// Whether a checkpoint has data that was not given to the disk yet.
    pub(crate) fn has_checkpoint_to_write(&self) -> bool {
        let writing = self.writer.as_ref();
        writing.is_some_and(|writing| writing.state.is_some() && !writing.writer.is_under_way())
    }

    /// Schedules the removal of files once a record is durable that is polled from now on.
    pub(crate) fn schedule_removal(&mut self, files: Vec<String>) {
        if !files.is_empty() {
            self.to_remove.extend(files);
            self.remove_after = None;
        }
    }

    /// Requests a checkpoint of the applied state for an administrator.
    pub(crate) fn request_checkpoint(&mut self, context: &Context<'_>, request_id: u64, outputs: &mut Outputs) {
        self.checkpoint_waiters.push((request_id, context.applied(), context.now_ms() + CHECKPOINT_WAIT_MS));
        self.answer_waiters(context, outputs);
    }

    fn answer_waiters(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let (newest, now) = (context.driver.log().checkpoint(), context.now_ms());
        self.checkpoint_waiters.retain(|&(request_id, index, until_ms)| {
            let lifecycle = &context.local.lifecycle;
            let result = if lifecycle.is_fenced() {
                Err(AdminError::Fenced)
            } else if newest.index >= index {
                Ok(AdminReply::Checkpoint { file: checkpoint_file(&newest), index: newest.index })
            } else if now >= until_ms || lifecycle.is_stopping() {
                Err(AdminError::Busy)
            } else {
                // This also applies after an abandoned checkpoint.
                self.wanted = self.wanted.max(Some(index));
                return true;
            };
            outputs.admin_done(request_id, result);
            false
        });
    }

    /// Serves a durable checkpoint to members that lag. Returns raft's offer of it.
    #[must_use]
    pub(crate) fn offer(&mut self, manifest: Manifest, table: Table) -> Snapshot {
        self.last_bytes = manifest.file_bytes();
        let offer = snapshot_of(&manifest);
        self.server.offer(manifest, table);
        offer
    }

    /// Continues the transfers and the checkpoint being written: one step when the machine is idle, or a whole block
    /// if the checkpoint would otherwise be late.
    pub(crate) fn drive(&mut self, context: &Context<'_>, is_idle: bool, outputs: &mut Outputs) {
        let mut is_urgent = false;
        if let Some(writing) = &self.writer {
            // A checkpoint from a leader replaces the zones, whose counter starts at zero.
            let retired_bytes = context.machine.zones.retired_bytes_total().saturating_sub(writing.retired_at_start);
            let (log, begun, abandoned) = (context.driver.log(), writing.bytes_at_start, self.abandoned);
            let is_late = log.is_checkpoint_late(begun, retired_bytes, abandoned);
            is_urgent = log.is_checkpoint_urgent(begun, retired_bytes, abandoned);
            if is_late && writing.state.is_some() {
                self.abandoned += 1;
                self.abandon(outputs);
            }
        }
        if is_urgent || is_idle {
            self.write(is_urgent, outputs);
        }
        while let Some(output) = self.server.poll(&mut outputs.tickets) {
            match output {
                ServerOutput::Read(read) => outputs.push(Output::ReadFile(read)),
                ServerOutput::Send { to, frame } => {
                    let mut bytes = Vec::new();
                    frame.encode(&mut bytes);
                    outputs.send(to, &Frame::Checkpoint(bytes));
                }
            }
        }
        self.drive_incoming(context, outputs);
    }

    fn write(&mut self, is_urgent: bool, outputs: &mut Outputs) {
        let Some(writing) = &mut self.writer else { return };
        let Some(state) = &mut writing.state else { return };
        let job = match is_urgent {
            true => writing.writer.poll(state, &mut outputs.tickets),
            false => writing.writer.poll_step(state, &mut outputs.tickets).into_job(),
        };
        if let Some(job) = job {
            outputs.push(Output::Disk(job));
        }
    }

    /// The header of the checkpoint that is due now. The caller freezes the state and calls [`Self::begin`].
    pub(crate) fn take_due(&mut self, context: &Context<'_>) -> Option<CheckpointHeader> {
        let Context { local, driver, machine } = *context;
        let newest = driver.log().checkpoint().index;
        if let Some(wanted) = driver.take_checkpoint_wanted() {
            self.wanted = Some(wanted);
        }
        let is_wanted = self.wanted.is_some_and(|wanted| wanted > newest);
        let is_replacing = self.damaged.is_some() && !planted!(DamagedCheckpointStays);
        let is_due = is_wanted || is_replacing || driver.log().is_checkpoint_due(self.last_bytes);
        let (index, term) = machine.applied;
        // Without new entries there is no later state. Then a new checkpoint of the same state replaces the damaged
        // one.
        let is_newer = index > newest || is_replacing && index == newest;
        // A state that differs from the majority's must not outlive this process. Files of an earlier process are
        // removed first, once the log is durable, because one may have the name of the new checkpoint.
        if local.lifecycle.is_fenced() && !planted!(FencedWritesCheckpoint)
            || !driver.log().is_durable()
            || !is_due
            || self.writer.is_some()
            || !is_newer
            || self.incoming.is_under_way()
        {
            return None;
        }
        self.wanted = None;
        Some(CheckpointHeader {
            cluster: local.config.cluster_id,
            group: u32::from(local.config.group),
            index,
            term,
            feature_level: machine.settings.feature_level(),
            members: driver.conf_state(),
        })
    }

    /// Begins to write a checkpoint of the frozen state.
    pub(crate) fn begin(&mut self, context: &Context<'_>, header: CheckpointHeader, state: FrozenState) {
        let bytes_at_start = context.driver.log().bytes_after_checkpoint();
        let retired_at_start = context.machine.zones.retired_bytes_total();
        let (writer, state) = (CheckpointWriter::new(header), Some(state));
        self.writer = Some(Box::new(Writing { writer, state, bytes_at_start, retired_at_start }));
    }

    /// Abandons the checkpoint that is being written. The frozen state is released immediately.
    pub(crate) fn abandon(&mut self, outputs: &mut Outputs) {
        let Some(writing) = &mut self.writer else { return };
        if writing.state.take().is_some() {
            outputs.counters.checkpoints_abandoned += 1;
        }
        if !writing.writer.is_under_way() {
            self.writer = None;
        }
    }

    /// Takes the result of a bulk job. Returns this member's checkpoint once it is complete.
    pub(crate) fn persisted(
        &mut self,
        context: &Context<'_>,
        outputs: &mut Outputs,
        ticket: u64,
    ) -> Option<NewCheckpoint> {
        if self.incoming_persisted(ticket) {
            return None;
        }
        let writing = self.writer.as_mut()?;
        let was_abandoned = writing.state.is_none();
        let is_distrusted = context.local.lifecycle.is_fenced() && !planted!(FencedWritesCheckpoint);
        // A leader's checkpoint was installed meanwhile: the log refers to that one, which must stay the newest.
        let installed = context.driver.log().checkpoint();
        let first_unused = installed.index + u64::from(self.damaged.is_none());
        match writing.writer.persisted(ticket) {
            Written::Whole(whole) if is_distrusted || whole.0.header.index < first_unused => {
                self.writer = None;
                if whole.0.reference() != installed {
                    outputs.remove_files(vec![whole.0.file()]);
                }
            }
            Written::More if was_abandoned => self.writer = None,
            Written::NotOurs | Written::More => {}
            Written::Whole(whole) => {
                let (manifest, table) = *whole;
                self.writer = None;
                outputs.counters.checkpoints_written += 1;
                self.note_newest(&manifest);
                let reference = manifest.reference();
                let offer = self.offer(manifest, table);
                let pinned = self.server.pinned_index(context.now_ms());
                self.retire(context.now_ms(), outputs);
                return Some(NewCheckpoint { reference, offer, pinned });
            }
        }
        None
    }

    /// A checkpoint is complete. It replaces a damaged one; if both are of the same state, they have the same name.
    pub(super) fn note_newest(&mut self, newest: &Manifest) {
        self.abandoned = 0;
        if let Some(file) = self.damaged.take().filter(|file| *file != newest.file()) {
            self.schedule_removal(vec![file]);
        }
    }

    /// Removes the files of checkpoints that no transfer needs any longer.
    fn retire(&mut self, now_ms: u64, outputs: &mut Outputs) {
        let to_remove = self.server.retire(now_ms);
        if planted!(OldCheckpointRemovedEarly) {
            return outputs.remove_files(to_remove);
        }
        self.schedule_removal(to_remove);
    }

    /// A job of the log was polled: a record in it refers to the newest checkpoint.
    pub(crate) fn note_log_job(&mut self, ticket: u64) {
        if !self.to_remove.is_empty() && self.remove_after.is_none() {
            self.remove_after = Some(ticket);
        }
    }

    /// A log job is durable: files that are no longer referred to may be removed.
    pub(crate) fn remove_scheduled(&mut self, ticket: u64, outputs: &mut Outputs) {
        if self.remove_after.is_some_and(|after| ticket >= after) {
            self.remove_after = None;
            let files = core::mem::take(&mut self.to_remove);
            outputs.remove_files(files);
        }
    }

    /// A manifest was sent to a member.
    pub(crate) fn note_sent(&mut self, to: NodeId, now_ms: u64) {
        self.sent.insert(to, now_ms + MANIFEST_TIMEOUT_MS);
    }

    /// A member requested blocks.
    pub(super) fn note_heard(&mut self, from: NodeId, now_ms: u64) {
        if let Some(until_ms) = self.sent.get_mut(&from) {
            *until_ms = now_ms + RECEIVER_SILENT_MS;
        }
    }

    /// The transfer to a member is over. Returns whether there was one.
    pub(crate) fn end_sent(&mut self, to: NodeId) -> bool {
        self.sent.remove(&to).is_some()
    }

    /// The receivers of transfers that are silent.
    pub(crate) fn silent(&self, now_ms: u64) -> Vec<NodeId> {
        let is_silent = |(&id, &until_ms): (&NodeId, &u64)| (now_ms >= until_ms).then_some(id);
        self.sent.iter().filter_map(is_silent).collect()
    }

    pub(crate) fn tick(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        self.tick_incoming(context, outputs);
        self.answer_waiters(context, outputs);
        let is_old = context.running_ms() >= REMAINS_KEPT_MS;
        if self.has_remains && is_old && !self.incoming.is_under_way() {
            self.has_remains = false;
            outputs.remove_files(vec![INCOMING_FILE.to_owned()]);
        }
    }

    pub(crate) fn peer_gone(&mut self, id: NodeId) {
        self.server.peer_gone(id);
        self.incoming_peer_gone(id);
    }

    /// Takes the result of a read for a checkpoint.
    pub(crate) fn handle_read(
        &mut self,
        context: &Context<'_>,
        outputs: &mut Outputs,
        ticket: u64,
        bytes: Vec<u8>,
    ) -> CheckpointRead {
        let bytes = match self.incoming_read(ticket, bytes, outputs) {
            Ok(Some((from, message))) => return CheckpointRead::Loaded(from, Box::new(message)),
            Ok(None) => return CheckpointRead::Done,
            Err(bytes) => bytes,
        };
        let Err(damage) = self.server.file_read(ticket, bytes) else { return CheckpointRead::Done };
        if damage.file != checkpoint_file(&context.driver.log().checkpoint()) {
            self.schedule_removal(vec![damage.file]);
            return CheckpointRead::Done;
        }
        // The damaged checkpoint is the newest: it is offered to members that lag, and this member would start from
        // it. So it must be replaced.
        self.damaged = Some(damage.file);
        CheckpointRead::NewestDamaged
    }
}
