//! A checkpoint of a leader takes the place of what this replica has.

use super::{Transfers, snapshot_of};
use crate::checkpoint::{
    CheckpointFetcher, CheckpointLoader, FetchOutput, FetchState, INCOMING_FILE, Manifest, Table, TransferFrame, items,
};
use crate::io::{FatalReason, NodeId, Output};
use crate::log::CheckpointRef;
use crate::machine::{Machine, Restore, RestoreError, SettingsEffect};
use crate::peer::Frame;
use crate::raft::Guard;
use crate::replica::Replica;
use raft::eraftpb::{Message, Snapshot};

/// A checkpoint on its way in.
#[derive(Default)]
pub(crate) struct Incoming {
    /// The message that announced it; raft sees it once the checkpoint is here.
    announcement: Option<(NodeId, Message)>,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    Fetching(Box<CheckpointFetcher>),
    Loading(Box<(Manifest, CheckpointLoader, Restore)>),
    /// Whole and loaded; in force once the log's record is durable.
    Ready(Box<(Manifest, Table, Machine)>),
}

impl Incoming {
    pub(super) const fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }

    /// The checkpoint on its way that is gone on with although `from` announces another one. All that it holds is
    /// committed, whoever leads, so it may be put in force in the place of the newer one; the log, or a further
    /// checkpoint, leads on from there. One of which blocks are missing is gone on with if the leader is the one that
    /// announced it: who is asked for blocks keeps the checkpoint that they are of, and the log behind it.
    fn resumable_from(&self, from: NodeId, commit: u64) -> Option<&Manifest> {
        let is_same_leader = || self.announcement.as_ref().is_some_and(|&(id, _)| id == from);
        let manifest = match &self.stage {
            Stage::Fetching(fetcher) if fetcher.has_all_blocks() || is_same_leader() => fetcher.manifest(),
            Stage::Loading(loading) => &loading.0,
            Stage::Fetching(_) | Stage::Ready(_) | Stage::None => return None,
        };
        // The log may have brought as much meanwhile.
        Some(manifest).filter(|manifest| manifest.header.index > commit)
    }
}

impl Transfers {
    /// Which checkpoint a snapshot that raft hands out is.
    pub(crate) fn reference(&self, snapshot: &Snapshot) -> CheckpointRef {
        match &self.incoming.stage {
            Stage::Ready(ready) if ready.0.header.index == snapshot.get_metadata().index => ready.0.reference(),
            _ => unreachable!("raft sees a snapshot only after its checkpoint was loaded"),
        }
    }
}

impl Replica {
    /// Takes a message that announces a checkpoint. Raft sees it once the checkpoint is durable here.
    pub(crate) fn handle_snapshot_message(&mut self, from: NodeId, mut message: Message) {
        // Only from a leader: nothing is fetched, and nothing given up, because another says so.
        let guard = self.driver.judge(from, &message);
        if guard != Guard::Step {
            return self.note_guard(from, message.term, guard);
        }
        let metadata = message.get_snapshot().get_metadata();
        let is_news = message.term >= self.driver.term() && metadata.index > self.driver.commit();
        let manifest = Manifest::decode(&message.get_snapshot().data);
        let fits = |manifest: &Manifest| {
            manifest.header.cluster == self.config.cluster_id
                && (manifest.header.index, manifest.header.term) == (metadata.index, metadata.term)
        };
        let Some(mut manifest) = manifest.filter(fits).filter(|_| is_news) else {
            // Raft tells the sender how far this member is.
            let message = if is_news { None } else { Some(message) };
            return match message {
                Some(message) => self.step(from, message),
                None => self.send(from, &Frame::SnapshotResult { ok: false }),
            };
        };
        if let Some(kept) = self.transfers.incoming.resumable_from(from, self.driver.commit()) {
            // Raft takes it from who leads now, and tells that one how far this member is by it.
            manifest = kept.clone();
            message.set_snapshot(snapshot_of(kept));
        }
        let now = self.now.monotonic_ms;
        match &mut self.transfers.incoming.stage {
            Stage::Fetching(fetcher) if fetcher.manifest().id == manifest.id => fetcher.set_source(from, now),
            Stage::Loading(loading) if loading.0.id == manifest.id => {}
            // On its way into force: the next message finds it there.
            Stage::Ready(_) => return,
            // What it reads must not be written anew meanwhile; the leader announces the other again.
            Stage::Fetching(fetcher) if fetcher.is_reading_back() => return,
            stage => {
                let has_remains = core::mem::take(&mut self.transfers.has_remains);
                *stage = Stage::Fetching(Box::new(CheckpointFetcher::new(manifest, from, has_remains, now)));
            }
        }
        self.transfers.incoming.announcement = Some((from, message));
    }

    /// Takes a frame of a transfer, of either side.
    pub(crate) fn handle_checkpoint_frame(&mut self, from: NodeId, bytes: &[u8]) {
        let Ok(frame) = TransferFrame::decode(bytes) else {
            self.machine.invariant_violations.malformed_frames += 1;
            return;
        };
        let now = self.now.monotonic_ms;
        if matches!(frame, TransferFrame::Get { .. }) {
            self.note_snapshot_heard(from);
            self.transfers.server.handle(from, &frame, now);
        } else if let Stage::Fetching(fetcher) = &mut self.transfers.incoming.stage {
            fetcher.handle(from, frame, now);
        }
    }

    pub(super) fn incoming_peer_gone(&mut self, id: NodeId) {
        if let Stage::Fetching(fetcher) = &mut self.transfers.incoming.stage {
            fetcher.peer_gone(id);
        }
    }

    pub(super) fn tick_incoming(&mut self) {
        let Stage::Fetching(fetcher) = &mut self.transfers.incoming.stage else { return };
        fetcher.tick(self.now.monotonic_ms);
        // Another leader's log brought as much: nobody announces this one again, and while it is on its way none of our
        // own is written. One that is whole ends by itself; what is being read back must not go meanwhile.
        let is_overtaken = fetcher.manifest().header.index <= self.driver.commit();
        if is_overtaken && !fetcher.has_all_blocks() && !fetcher.is_reading_back() {
            self.incoming_failed();
            // Behind the write that may be under way: one queue, in order.
            self.remove_files(vec![INCOMING_FILE.to_owned()]);
        }
    }

    pub(super) fn drive_incoming(&mut self) {
        if let Stage::Fetching(fetcher) = &mut self.transfers.incoming.stage {
            while let Some(output) = fetcher.poll(&mut self.tickets) {
                match output {
                    FetchOutput::Disk(job) => self.out.push_back(Output::Disk(job)),
                    FetchOutput::Read(read) => self.out.push_back(Output::ReadFile(read)),
                    FetchOutput::Send { to, frame } => {
                        let mut bytes = Vec::new();
                        frame.encode(&mut bytes);
                        let frame = Frame::Checkpoint(bytes).encode(self.config.group);
                        self.out.push_back(Output::Send { to, channel: crate::io::Channel::Bulk, frame });
                    }
                }
            }
            match fetcher.state() {
                FetchState::UnderWay { .. } => {}
                FetchState::Failed(_) => self.incoming_failed(),
                FetchState::Whole => self.begin_load(),
            }
        }
        if let Stage::Loading(loading) = &mut self.transfers.incoming.stage {
            while let Some(read) = loading.1.poll(&mut self.tickets) {
                self.out.push_back(Output::ReadFile(read));
            }
        }
    }

    fn begin_load(&mut self) {
        let stage = core::mem::take(&mut self.transfers.incoming.stage);
        let Stage::Fetching(fetcher) = stage else { return };
        self.counters.checkpoint_blocks_kept += u64::from(fetcher.kept_blocks());
        match (fetcher.into_parts(), Restore::new(&self.config)) {
            (Some((manifest, _)), _) if manifest.header.index <= self.driver.commit() => {
                self.incoming_failed();
                self.remove_unused(&manifest);
            }
            (Some((manifest, table)), Ok(restore)) => {
                let loader = CheckpointLoader::new(&manifest, table);
                self.transfers.incoming.stage = Stage::Loading(Box::new((manifest, loader, restore)));
            }
            _ => self.incoming_failed(),
        }
    }

    pub(super) fn incoming_persisted(&mut self, ticket: u64) -> bool {
        match &mut self.transfers.incoming.stage {
            Stage::Fetching(fetcher) => fetcher.persisted(ticket),
            _ => false,
        }
    }

    /// Takes a read; gives the bytes back when they are not for the incoming checkpoint.
    pub(super) fn incoming_read(&mut self, ticket: u64, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let loading = match &mut self.transfers.incoming.stage {
            Stage::Fetching(fetcher) => return fetcher.file_read(ticket, bytes),
            Stage::Loading(loading) => loading,
            Stage::None | Stage::Ready(_) => return Err(bytes),
        };
        let (_, loader, restore) = &mut **loading;
        if !loader.is_reading(ticket) {
            return Err(bytes);
        }
        let mut loaded = loader.file_read(ticket, bytes).is_ok();
        while let (true, Some((number, section, block))) = (loaded, loader.next_block()) {
            loaded = items(number, &block).all(|item| item.is_ok_and(|item| restore.item(section, item).is_ok()));
        }
        if !loaded {
            self.incoming_failed();
        } else if loader.is_done() {
            self.finish_load();
        }
        Ok(())
    }

    fn finish_load(&mut self) {
        let stage = core::mem::take(&mut self.transfers.incoming.stage);
        let Stage::Loading(loading) = stage else { return };
        let (manifest, loader, restore) = *loading;
        let applied = (manifest.header.index, manifest.header.term);
        let machine: Result<Machine, RestoreError> = restore.finish(applied);
        let announcement = self.transfers.incoming.announcement.take();
        let (Ok(machine), Some((from, message))) = (machine, announcement) else { return self.incoming_failed() };
        self.transfers.incoming.stage = Stage::Ready(Box::new((manifest, loader.into_table(), machine)));
        self.step(from, message);
        self.work_raft();
        // Raft had it already, or has moved on: what was loaded is of no use.
        if !self.is_installing
            && let Stage::Ready(ready) = core::mem::take(&mut self.transfers.incoming.stage)
        {
            self.remove_unused(&ready.0);
        }
    }

    /// A checkpoint came whole, and is not put in force.
    fn remove_unused(&mut self, manifest: &Manifest) {
        if manifest.reference() != self.driver.log().checkpoint() {
            self.remove_files(vec![manifest.file()]);
        }
    }

    fn incoming_failed(&mut self) {
        self.transfers.incoming.stage = Stage::None;
        if let Some((from, _)) = self.transfers.incoming.announcement.take() {
            self.send(from, &Frame::SnapshotResult { ok: false });
        }
    }

    /// The log's record of the checkpoint is durable: its state takes the place of ours.
    pub(crate) fn install_when_durable(&mut self) {
        if !self.is_installing || !self.driver.is_snapshot_persisted() && !planted!(CheckpointInForceEarly) {
            return;
        }
        self.is_installing = false;
        let Stage::Ready(ready) = core::mem::take(&mut self.transfers.incoming.stage) else { return };
        let (manifest, table, machine) = *ready;
        let invariant_violations = self.machine.invariant_violations;
        self.drop_head();
        let after = self.machine.applied.0;
        self.machine = machine;
        self.machine.invariant_violations = invariant_violations;
        if self.machine.settings.feature_level() > self.config.feature_level {
            return self.fatal(FatalReason::EntryUnknown);
        }
        let index = manifest.header.index;
        // What is being written is of a state that is gone.
        self.abandon_checkpoint();
        self.driver.applied(index);
        self.driver.log_mut().set_applied(index);
        self.note_newest(&manifest);
        self.offer_checkpoint(manifest, table);
        self.counters.checkpoints_installed += 1;
        self.out.push_back(Output::AuditGap { after, to: index });
        self.out.push_back(Output::ZonesReplaced);
        self.out.push_back(Output::Published { index });
        self.out.push_back(Output::ZonesChanged { zones: None });
        let all =
            SettingsEffect { all_keys: true, policies: true, members: true, trust: true, ..SettingsEffect::default() };
        self.report_effect(all);
        self.settle_installed();
        self.answer_reads();
        if let Some(leader) = self.driver.leader() {
            self.send(leader, &Frame::SnapshotResult { ok: true });
        }
    }
}
