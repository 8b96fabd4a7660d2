//! Executes what checkpoints and transfers decide about Raft, its log and the state.

use super::Replica;
use crate::checkpoint::Manifest;
use crate::context::Context;
use crate::io::{FatalReason, NodeId, Output};
use crate::machine::SettingsEffect;
use crate::peer::Frame;
use crate::raft::Guard;
use crate::transfer::CheckpointRead;
use raft::eraftpb::Message;

impl Replica {
    /// Takes a message that announces a checkpoint. Raft sees it once the checkpoint is durable here.
    pub(super) fn handle_snapshot_message(&mut self, from: NodeId, message: Message) {
        // Only a leader's message may start or stop a transfer.
        let guard = self.driver.judge(from, &message);
        if guard != Guard::Step {
            return self.note_guard(from, message.term, guard);
        }
        let metadata = message.get_snapshot().get_metadata();
        let is_news = message.term >= self.driver.term() && metadata.index > self.driver.commit();
        let manifest = Manifest::decode(&message.get_snapshot().data);
        let fits = |manifest: &Manifest| {
            manifest.header.cluster == self.local.config.cluster_id
                && (manifest.header.index, manifest.header.term) == (metadata.index, metadata.term)
        };
        let is_news = is_news && !planted!(SnapshotSteppedEarly);
        let Some(manifest) = manifest.filter(fits).filter(|_| is_news) else {
            if is_news {
                return self.outputs.send(from, &Frame::SnapshotResult { ok: false });
            }
            // Raft answers the sender with this member's index.
            return self.step(from, message);
        };
        let (commit, now_ms) = (self.driver.commit(), self.local.now.monotonic_ms);
        self.transfers.announce(from, message, manifest, commit, now_ms);
    }

    /// Takes the result of a read for a checkpoint. Once a leader's checkpoint is loaded, raft sees its message.
    pub(super) fn transfer_read(&mut self, ticket: u64, bytes: Vec<u8>) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        match self.transfers.handle_read(&context, &mut self.outputs, ticket, bytes) {
            CheckpointRead::Done => {}
            CheckpointRead::NewestDamaged => self.driver.set_offer(None),
            CheckpointRead::Loaded(from, message) => {
                self.step(from, *message);
                self.work_raft();
                self.transfers.drop_unless_installing(&self.driver, &mut self.outputs);
            }
        }
    }

    /// Freezes the state if a checkpoint of it is due.
    pub(super) fn begin_checkpoint(&mut self) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let Some(header) = self.transfers.take_due(&context) else { return };
        let state = self.machine.freeze();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.transfers.begin(&context, header, state);
    }

    /// Takes the result of a bulk job. Once a checkpoint is complete, the log refers to it. The log drops the entries
    /// in it, except those that are kept behind it or needed by a transfer.
    pub(super) fn checkpoint_persisted(&mut self, ticket: u64) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let Some(new) = self.transfers.persisted(&context, &mut self.outputs, ticket) else { return };
        self.driver.set_offer(Some(new.offer));
        let log = self.driver.log_mut();
        log.checkpointed(new.reference);
        log.compact(log.compact_target(new.pinned));
    }

    /// A transfer to a member is over. Raft needs to know, or it would wait forever. A report without a transfer is
    /// ignored.
    pub(super) fn transfer_ended(&mut self, to: NodeId, ok: bool) {
        if self.transfers.end_sent(to) && self.driver.is_leader() && !planted!(SnapshotOutcomeIgnored) {
            self.driver.report_snapshot(to, ok);
        }
    }

    /// This replica's state is wrong, and it is unknown since when. No checkpoint of it is written or sent.
    pub(super) fn withdraw_checkpoint(&mut self) {
        self.transfers.abandon(&mut self.outputs);
        self.driver.set_offer(None);
    }

    /// The log's record of the checkpoint is durable: its state replaces this replica's state.
    pub(super) fn install_when_durable(&mut self) {
        if !self.transfers.is_installing || !self.driver.is_snapshot_persisted() && !planted!(CheckpointInForceEarly) {
            return;
        }
        let Some((manifest, table, machine)) = self.transfers.take_installed() else { return };
        let invariant_violations = self.machine.invariant_violations;
        self.drop_head();
        let after = self.machine.applied.0;
        self.machine = machine;
        self.machine.invariant_violations = invariant_violations;
        if self.machine.settings.feature_level() > self.local.config.feature_level {
            return self.local.lifecycle.end(FatalReason::EntryUnknown, &mut self.outputs);
        }
        let index = manifest.header.index;
        // The checkpoint being written is of the replaced state.
        self.transfers.abandon(&mut self.outputs);
        self.driver.applied(index);
        self.driver.log_mut().set_applied(index);
        let offer = self.transfers.installed(manifest, table, &mut self.outputs);
        self.driver.set_offer(Some(offer));
        self.outputs.push(Output::AuditGap { after, to: index });
        self.outputs.push(Output::ZonesReplaced);
        self.outputs.push(Output::Published { index });
        self.outputs.push(Output::ZonesChanged { zones: None });
        let all =
            SettingsEffect { all_keys: true, policies: true, members: true, trust: true, ..SettingsEffect::default() };
        self.report_effect(all);
        let (requests, mut shared) = self.requests();
        requests.settle_installed(&mut shared);
        self.answer_reads();
        if let Some(leader) = self.driver.leader() {
            self.outputs.send(leader, &Frame::SnapshotResult { ok: true });
        }
    }
}
