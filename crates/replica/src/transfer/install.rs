//! Installs a leader's checkpoint in place of this replica's state.

use super::incoming::Stage;
use super::{Transfers, snapshot_of};
use crate::checkpoint::{
    CheckpointFetcher, CheckpointLoader, FetchOutput, FetchState, INCOMING_FILE, Manifest, Table, TransferFrame, items,
};
use crate::context::{Context, Outputs};
use crate::io::{NodeId, Output};
use crate::log::CheckpointRef;
use crate::machine::{Machine, Restore, RestoreError};
use crate::peer::Frame;
use crate::raft::Driver;
use raft::eraftpb::{Message, Snapshot};

impl Transfers {
    /// The reference to the checkpoint of a snapshot from raft.
    pub(crate) fn reference(&self, snapshot: &Snapshot) -> CheckpointRef {
        match &self.incoming.stage {
            Stage::Ready(ready) if ready.0.header.index == snapshot.get_metadata().index => ready.0.reference(),
            _ => unreachable!("raft sees a snapshot only after its checkpoint was loaded"),
        }
    }
}

impl Transfers {
    /// Takes a message that announces this checkpoint. Raft sees it once the checkpoint is durable here.
    pub(crate) fn announce(
        &mut self,
        from: NodeId,
        mut message: Message,
        mut manifest: Manifest,
        commit: u64,
        now: u64,
    ) {
        if let Some(kept) = self.incoming.resumable_from(from, commit) {
            // Raft accepts it from the present leader, and reports this member's new index to that leader.
            manifest = kept.clone();
            message.set_snapshot(snapshot_of(kept));
        }
        match &mut self.incoming.stage {
            Stage::Fetching(fetcher) if fetcher.manifest().id == manifest.id => fetcher.set_source(from, now),
            Stage::Loading(loading) if loading.0.id == manifest.id => {}
            // It is being installed; the next message is handled afterwards.
            Stage::Ready(_) => return,
            // A file must not be overwritten while it is read back. The leader announces the other checkpoint again.
            Stage::Fetching(fetcher) if fetcher.is_reading_back() => return,
            stage => {
                let has_remains = core::mem::take(&mut self.has_remains);
                *stage = Stage::Fetching(Box::new(CheckpointFetcher::new(manifest, from, has_remains, now)));
            }
        }
        self.incoming.announcement = Some((from, message));
    }

    /// Handles a frame of a transfer, on either side.
    pub(crate) fn handle_frame(&mut self, from: NodeId, bytes: &[u8], now: u64, outputs: &mut Outputs) {
        let Ok(frame) = TransferFrame::decode(bytes) else {
            outputs.invariant_violations.malformed_frames += 1;
            return;
        };
        if matches!(frame, TransferFrame::Get { .. }) {
            self.note_heard(from, now);
            self.server.handle(from, &frame, now);
        } else if let Stage::Fetching(fetcher) = &mut self.incoming.stage {
            fetcher.handle(from, frame, now);
        }
    }

    pub(super) fn incoming_peer_gone(&mut self, id: NodeId) {
        if let Stage::Fetching(fetcher) = &mut self.incoming.stage {
            fetcher.peer_gone(id);
        }
    }

    pub(super) fn tick_incoming(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let Stage::Fetching(fetcher) = &mut self.incoming.stage else { return };
        fetcher.tick(context.now_ms());
        // The log of another leader has reached that index, so no leader announces this checkpoint again, and while
        // it is incoming this member writes no checkpoint of its own. A complete one ends by itself, and a file must
        // not be removed while it is read back.
        let is_overtaken = fetcher.manifest().header.index <= context.driver.commit();
        if is_overtaken && !planted!(OvertakenTransferStays) && !fetcher.has_all_blocks() && !fetcher.is_reading_back()
        {
            self.incoming_failed(outputs);
            // After any write in progress, because the queue is executed in order.
            outputs.remove_files(vec![INCOMING_FILE.to_owned()]);
        }
    }

    pub(super) fn drive_incoming(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        if let Stage::Fetching(fetcher) = &mut self.incoming.stage {
            while let Some(output) = fetcher.poll(&mut outputs.tickets) {
                match output {
                    FetchOutput::Disk(job) => outputs.push(Output::Disk(job)),
                    FetchOutput::Read(read) => outputs.push(Output::ReadFile(read)),
                    FetchOutput::Send { to, frame } => {
                        let mut bytes = Vec::new();
                        frame.encode(&mut bytes);
                        outputs.send(to, &Frame::Checkpoint(bytes));
                    }
                }
            }
            match fetcher.state() {
                FetchState::UnderWay { .. } => {}
                FetchState::Failed(_) => self.incoming_failed(outputs),
                FetchState::Whole => self.begin_load(context, outputs),
            }
        }
        if let Stage::Loading(loading) = &mut self.incoming.stage {
            while let Some(read) = loading.1.poll(&mut outputs.tickets) {
                outputs.push(Output::ReadFile(read));
            }
        }
    }

    fn begin_load(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let stage = core::mem::take(&mut self.incoming.stage);
        let Stage::Fetching(fetcher) = stage else { return };
        outputs.counters.checkpoint_blocks_kept += u64::from(fetcher.kept_blocks());
        match (fetcher.into_parts(), Restore::new(&context.local.config)) {
            (Some((manifest, _)), _) if manifest.header.index <= context.driver.commit() => {
                self.incoming_failed(outputs);
                remove_unused(context.driver, &manifest, outputs);
            }
            (Some((manifest, table)), Ok(restore)) => {
                let loader = CheckpointLoader::new(&manifest, table);
                self.incoming.stage = Stage::Loading(Box::new((manifest, loader, restore)));
            }
            _ => self.incoming_failed(outputs),
        }
    }

    pub(super) fn incoming_persisted(&mut self, ticket: u64) -> bool {
        match &mut self.incoming.stage {
            Stage::Fetching(fetcher) => fetcher.persisted(ticket),
            _ => false,
        }
    }

    /// Takes the result of a read; returns the bytes if the read was not for the incoming checkpoint, and the message
    /// that announced the checkpoint once that is loaded.
    pub(super) fn incoming_read(
        &mut self,
        ticket: u64,
        bytes: Vec<u8>,
        outputs: &mut Outputs,
    ) -> Result<Option<(NodeId, Message)>, Vec<u8>> {
        let loading = match &mut self.incoming.stage {
            Stage::Fetching(fetcher) => return fetcher.file_read(ticket, bytes).map(|()| None),
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
            self.incoming_failed(outputs);
        } else if loader.is_done() {
            return Ok(self.finish_load(outputs));
        }
        Ok(None)
    }

    /// Everything is loaded. Returns the message that announced the checkpoint, for raft.
    fn finish_load(&mut self, outputs: &mut Outputs) -> Option<(NodeId, Message)> {
        let stage = core::mem::take(&mut self.incoming.stage);
        let Stage::Loading(loading) = stage else { return None };
        let (manifest, loader, restore) = *loading;
        let applied = (manifest.header.index, manifest.header.term);
        let machine: Result<Machine, RestoreError> = restore.finish(applied);
        let announcement = self.incoming.announcement.take();
        let (Ok(machine), Some(announcement)) = (machine, announcement) else {
            self.incoming_failed(outputs);
            return None;
        };
        self.incoming.stage = Stage::Ready(Box::new((manifest, loader.into_table(), machine)));
        Some(announcement)
    }

    /// Raft saw the message. If it already had that state or has moved on, the loaded state is not needed.
    pub(crate) fn drop_unless_installing(&mut self, driver: &Driver, outputs: &mut Outputs) {
        if !self.is_installing
            && let Stage::Ready(ready) = core::mem::take(&mut self.incoming.stage)
        {
            remove_unused(driver, &ready.0, outputs);
        }
    }

    fn incoming_failed(&mut self, outputs: &mut Outputs) {
        self.incoming.stage = Stage::None;
        if let Some((from, _)) = self.incoming.announcement.take() {
            outputs.send(from, &Frame::SnapshotResult { ok: false });
        }
    }

    /// The log's record of the checkpoint is durable: returns the state that replaces this replica's state.
    pub(crate) fn take_installed(&mut self) -> Option<(Manifest, Table, Machine)> {
        self.is_installing = false;
        let Stage::Ready(ready) = core::mem::take(&mut self.incoming.stage) else { return None };
        Some(*ready)
    }

    /// The state of this checkpoint is in force. Returns raft's offer of it.
    #[must_use]
    pub(crate) fn installed(&mut self, manifest: Manifest, table: Table, outputs: &mut Outputs) -> Snapshot {
        self.note_newest(&manifest);
        outputs.counters.checkpoints_installed += 1;
        self.offer(manifest, table)
    }
}

/// Removes a complete checkpoint that was not installed.
fn remove_unused(driver: &Driver, manifest: &Manifest, outputs: &mut Outputs) {
    if manifest.reference() != driver.log().checkpoint() {
        outputs.remove_files(vec![manifest.file()]);
    }
}
