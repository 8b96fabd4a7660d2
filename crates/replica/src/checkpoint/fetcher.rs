//! The receiving side of a transfer: requests the table, then the blocks, verifies each and writes it. Blocks on disk
//! are kept when a connection breaks, when another member becomes the source of the same checkpoint, and when this
//! member restarts, because the file names its checkpoint from its first write on. Blocks from an earlier process are
//! read back and written again: after a failed sync, bytes that can be read need not be on the disk.

use super::INCOMING_FILE;
use super::format::{Manifest, Table};
use super::frame::{Part, TransferFrame};
use super::limits::{
    BAD_BLOCKS_MAX, BLOCK_BYTES_MAX, FETCH_STALL_MS, FETCH_WINDOW_MAX, GET_COUNT_MAX, LOAD_READS_MAX,
    UNSYNCED_BYTES_MAX,
};
use crate::disk::{DiskJob, DiskOp, DiskQueue, ReadFile, Tickets};
use std::collections::{BTreeMap, BTreeSet};

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchOutput {
    /// Send a frame.
    Send {
        /// The receiver.
        to: u64,
        /// The frame.
        frame: TransferFrame,
    },
    /// Execute this disk job.
    Disk(DiskJob),
    /// Execute this read.
    Read(ReadFile),
}

/// Progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchState {
    /// Blocks are missing, or not durable yet.
    UnderWay {
        /// Blocks that arrived.
        have: u32,
        /// All blocks.
        of: u32,
    },
    /// The checkpoint is durable under its name; take it with [`CheckpointFetcher::into_parts`].
    Whole,
    /// The transfer failed.
    Failed(FetchError),
}

/// Why a transfer failed; the source is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The source no longer has the checkpoint.
    Gone,
    /// The table does not match the manifest.
    BadTable,
    /// Too many blocks differed from their checksums.
    BadBlocks,
}

/// Fetches one checkpoint.
#[derive(Debug)]
pub struct CheckpointFetcher {
    manifest: Manifest,
    source: Option<u64>,
    /// An earlier process left a file that may be part of this checkpoint.
    has_remains: bool,
    stage: Stage,
    /// Requested parts of the table, or requested blocks.
    requested: BTreeSet<u32>,
    /// When something last arrived or was last requested, in milliseconds.
    last_progress_ms: u64,
    bad_count: u32,
    kept_count: u32,
    under_way: Option<u64>,
    unsynced_bytes: u64,
}

#[derive(Debug)]
enum Stage {
    Table { parts: BTreeMap<u32, Vec<u8>> },
    Data(Box<Data>),
    Naming(Box<Data>),
    Whole(Box<Data>),
    Failed(FetchError),
}

#[derive(Debug)]
struct Data {
    table: Table,
    /// All blocks before this one are here.
    next: u32,
    ahead: BTreeSet<u32>,
    /// Verified blocks that are not yet being written.
    unwritten: BTreeMap<u32, Vec<u8>>,
    /// The file of an earlier transfer, while it is read back.
    remains: Option<PartialFile>,
    /// The file belongs to this checkpoint and is continued.
    is_resumed: bool,
    is_created: bool,
}

/// Reads back the file of an earlier transfer.
#[derive(Debug, Default)]
struct PartialFile {
    /// Reads in progress, by ticket: a block, or `None` for the trailer, which names the checkpoint.
    reads: BTreeMap<u64, Option<u32>>,
    is_named: bool,
    /// The next block to read.
    next: u32,
}

impl CheckpointFetcher {
    /// A transfer from `source`, which must be connected. `has_remains` means that an earlier process left a file;
    /// its blocks of this checkpoint are not requested again.
    pub fn new(manifest: Manifest, source: u64, has_remains: bool, now_ms: u64) -> Self {
        Self {
            manifest,
            source: Some(source),
            has_remains,
            stage: Stage::Table { parts: BTreeMap::new() },
            requested: BTreeSet::new(),
            last_progress_ms: now_ms,
            bad_count: 0,
            kept_count: 0,
            under_way: None,
            unsynced_bytes: 0,
        }
    }

    /// The manifest of the checkpoint.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The progress of the transfer.
    pub fn state(&self) -> FetchState {
        let of = self.manifest.block_count;
        match &self.stage {
            Stage::Table { .. } => FetchState::UnderWay { have: 0, of },
            Stage::Data(data) => FetchState::UnderWay { have: data.next + data.ahead.len() as u32, of },
            Stage::Naming(_) => FetchState::UnderWay { have: of, of },
            Stage::Whole(_) => FetchState::Whole,
            Stage::Failed(error) => FetchState::Failed(*error),
        }
    }

    /// Whether no block is missing.
    pub fn has_all_blocks(&self) -> bool {
        matches!(self.state(), FetchState::UnderWay { have, of } if have == of) || self.state() == FetchState::Whole
    }

    /// Blocks from an earlier transfer that were not fetched again.
    pub fn kept_blocks(&self) -> u32 {
        self.kept_count
    }

    /// Manifest and table of a complete checkpoint, for [`super::CheckpointLoader::new`]; `None` before that.
    pub fn into_parts(self) -> Option<(Manifest, Table)> {
        match self.stage {
            Stage::Whole(data) => Some((self.manifest, data.table)),
            _ => None,
        }
    }

    /// Continues from another member that has the checkpoint. Open requests are sent again.
    pub fn set_source(&mut self, source: u64, now_ms: u64) {
        self.source = Some(source);
        self.requested.clear();
        self.last_progress_ms = now_ms;
    }

    /// The connection to a peer ended. If it was the source, the transfer pauses.
    pub fn peer_gone(&mut self, peer: u64) {
        if self.source == Some(peer) {
            self.source = None;
            self.requested.clear();
        }
    }

    /// Repeats the requests if nothing arrived for too long.
    pub fn tick(&mut self, now_ms: u64) {
        if !self.requested.is_empty() && now_ms.saturating_sub(self.last_progress_ms) >= FETCH_STALL_MS {
            self.requested.clear();
            self.last_progress_ms = now_ms;
        }
    }

    /// Handles a frame from the source.
    pub fn handle(&mut self, peer: u64, frame: TransferFrame, now_ms: u64) {
        let is_ours = |checkpoint: &[u8; 32]| *checkpoint == self.manifest.id && self.source == Some(peer);
        match frame {
            TransferFrame::Gone { checkpoint } if is_ours(&checkpoint) => {
                if matches!(self.stage, Stage::Table { .. } | Stage::Data(_)) {
                    self.stage = Stage::Failed(FetchError::Gone);
                }
            }
            TransferFrame::Block { checkpoint, part, number, bytes } if is_ours(&checkpoint) => {
                // Unrequested and repeated blocks are dropped, which bounds the memory.
                let is_wanted =
                    matches!((&self.stage, part), (Stage::Table { .. }, Part::Table) | (Stage::Data(_), Part::Data));
                if is_wanted && self.requested.remove(&number) {
                    self.last_progress_ms = now_ms;
                    self.arrived(number, bytes);
                }
            }
            _ => {}
        }
    }

    /// The next action.
    pub fn poll(&mut self, tickets: &mut Tickets) -> Option<FetchOutput> {
        // A checkpoint without blocks has an empty table.
        self.assemble_table();
        if let Some(read) = self.poll_remains(tickets) {
            return Some(FetchOutput::Read(read));
        }
        // Only when the file's name was read is it known whether the file is continued or begun anew.
        if matches!(&self.stage, Stage::Data(data) if data.remains.as_ref().is_some_and(|remains| !remains.is_named)) {
            return None;
        }
        let job = self.poll_disk(tickets).map(FetchOutput::Disk);
        // Which blocks are missing is known once all of the file was read.
        if self.is_reading_back() { job } else { job.or_else(|| self.poll_get()) }
    }

    /// Whether the file of an earlier transfer is being read back. No block is requested meanwhile.
    pub fn is_reading_back(&self) -> bool {
        matches!(&self.stage, Stage::Data(data) if data.remains.is_some())
    }

    /// The next read of the earlier transfer's file.
    fn poll_remains(&mut self, tickets: &mut Tickets) -> Option<ReadFile> {
        let Stage::Data(data) = &mut self.stage else { return None };
        let remains = data.remains.as_mut()?;
        let (what, offset, len) = if !remains.is_named {
            if !remains.reads.is_empty() {
                return None;
            }
            (None, self.manifest.trailer_offset(), self.manifest.encode_trailer().len())
        } else if remains.reads.len() < LOAD_READS_MAX
            && remains.reads.len() + data.unwritten.len() < FETCH_WINDOW_MAX
            && remains.next < data.table.block_count()
        {
            let number = remains.next;
            remains.next += 1;
            let line = data.table.line(number)?;
            (Some(number), line.offset, line.len)
        } else {
            return None;
        };
        let ticket = tickets.draw();
        remains.reads.insert(ticket, what);
        Some(ReadFile { ticket, file: INCOMING_FILE.into(), offset, len })
    }

    /// Takes the result of a read; returns the bytes if the read was not the fetcher's.
    ///
    /// # Errors
    /// The bytes, unchanged.
    pub fn file_read(&mut self, ticket: u64, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let Stage::Data(data) = &mut self.stage else { return Err(bytes) };
        let Some(remains) = &mut data.remains else { return Err(bytes) };
        let Some(what) = remains.reads.remove(&ticket) else { return Err(bytes) };
        match what {
            None if bytes == self.manifest.encode_trailer() => {
                remains.is_named = true;
                data.is_resumed = true;
            }
            // The file is of another checkpoint.
            None => data.remains = None,
            Some(number) => {
                // A block that does not verify was not written, or only in part.
                if data.table.line(number).is_some_and(|line| line.is_block(&bytes)) {
                    if planted!(BlocksNotWrittenAgain) {
                        data.is_here(number);
                    } else {
                        data.take(number, bytes);
                    }
                    self.kept_count += 1;
                }
            }
        }
        let is_over = |remains: &PartialFile| {
            remains.is_named && remains.reads.is_empty() && remains.next == data.table.block_count()
        };
        if data.remains.as_ref().is_some_and(is_over) {
            data.remains = None;
        }
        Ok(())
    }

    /// Takes the result of a job; returns whether the ticket was the fetcher's.
    pub fn persisted(&mut self, ticket: u64) -> bool {
        if self.under_way != Some(ticket) {
            return false;
        }
        self.under_way = None;
        if let Stage::Naming(_) = self.stage {
            let stage = std::mem::replace(&mut self.stage, Stage::Failed(FetchError::Gone));
            let Stage::Naming(data) = stage else { unreachable!("it was just matched") };
            self.stage = Stage::Whole(data);
        }
        true
    }

    fn arrived(&mut self, number: u32, bytes: Vec<u8>) {
        match &mut self.stage {
            Stage::Table { parts } => {
                parts.insert(number, bytes);
                self.assemble_table();
            }
            Stage::Data(data) => {
                if data.table.line(number).is_some_and(|line| line.is_block(&bytes)) {
                    data.take(number, bytes);
                    return;
                }
                self.bad_count += 1;
                if self.bad_count > BAD_BLOCKS_MAX {
                    self.stage = Stage::Failed(FetchError::BadBlocks);
                }
            }
            _ => {}
        }
    }

    fn assemble_table(&mut self) {
        let Stage::Table { parts } = &mut self.stage else { return };
        if parts.len() < table_part_count(&self.manifest) as usize {
            return;
        }
        let bytes = std::mem::take(parts).into_values().flatten().collect();
        self.stage = match Table::decode(&self.manifest, bytes) {
            Some(table) => Stage::Data(Box::new(Data {
                table,
                next: 0,
                ahead: BTreeSet::new(),
                unwritten: BTreeMap::new(),
                remains: (self.has_remains && !planted!(BlocksFetchedAgain)).then(PartialFile::default),
                is_resumed: false,
                is_created: false,
            })),
            None => Stage::Failed(FetchError::BadTable),
        };
    }

    /// The next request, if the window has room.
    fn poll_get(&mut self) -> Option<FetchOutput> {
        let to = self.source?;
        let (part, end, unwritten) = match &self.stage {
            Stage::Table { .. } => (Part::Table, table_part_count(&self.manifest), 0),
            Stage::Data(data) => (Part::Data, data.table.block_count(), data.unwritten.len()),
            _ => return None,
        };
        let room = FETCH_WINDOW_MAX.saturating_sub(self.requested.len() + unwritten);
        // Requests are sent for at least half a window, to keep them few. The last ones are sent as they are.
        if room == 0 || (room < FETCH_WINDOW_MAX / 2 && !self.requested.is_empty()) {
            return None;
        }
        let mut wanted = (0..end).skip(self.first_missing() as usize).filter(|number| self.is_missing(*number));
        let from = wanted.next()?;
        let count = room.min(usize::from(GET_COUNT_MAX));
        let run = 1 + wanted.zip(from + 1..).take(count - 1).take_while(|(number, next)| number == next).count();
        self.requested.extend((from..).take(run));
        let frame = TransferFrame::Get { checkpoint: self.manifest.id, part, from, count: run as u16 };
        Some(FetchOutput::Send { to, frame })
    }

    fn first_missing(&self) -> u32 {
        if let Stage::Data(data) = &self.stage { data.next } else { 0 }
    }

    fn is_missing(&self, number: u32) -> bool {
        let is_here = match &self.stage {
            Stage::Table { parts } => parts.contains_key(&number),
            Stage::Data(data) => number < data.next || data.ahead.contains(&number),
            _ => true,
        };
        !is_here && !self.requested.contains(&number)
    }

    fn poll_disk(&mut self, tickets: &mut Tickets) -> Option<DiskJob> {
        let Stage::Data(data) = &mut self.stage else { return None };
        let is_last = data.next == data.table.block_count();
        if self.under_way.is_some() || (data.unwritten.is_empty() && !is_last) {
            return None;
        }
        let mut ops = Vec::new();
        let write = |offset: u64, bytes: Vec<u8>| DiskOp::Write { file: INCOMING_FILE.into(), offset, data: bytes };
        if !data.is_created {
            data.is_created = true;
            if !data.is_resumed {
                ops.push(DiskOp::Create { file: INCOMING_FILE.into(), zeroed_bytes: 0 });
            }
            // From here on, the file names its checkpoint.
            ops.push(write(0, self.manifest.header.encode()));
            ops.push(write(self.manifest.table_offset(), data.table.as_bytes().to_vec()));
            ops.push(write(self.manifest.trailer_offset(), self.manifest.encode_trailer()));
            ops.extend([DiskOp::Sync { file: INCOMING_FILE.into() }, DiskOp::SyncDir]);
        }
        for (number, bytes) in std::mem::take(&mut data.unwritten) {
            self.unsynced_bytes += bytes.len() as u64;
            let line = data.table.line(number).expect("it was verified by its line");
            ops.push(write(line.offset, bytes));
        }
        if is_last {
            ops.push(DiskOp::Sync { file: INCOMING_FILE.into() });
            ops.push(DiskOp::Rename { from: INCOMING_FILE.into(), to: self.manifest.file() });
            ops.push(DiskOp::SyncDir);
            let stage = std::mem::replace(&mut self.stage, Stage::Failed(FetchError::Gone));
            let Stage::Data(data) = stage else { unreachable!("it was just matched") };
            self.stage = Stage::Naming(data);
        } else if self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.unsynced_bytes = 0;
            ops.push(DiskOp::Sync { file: INCOMING_FILE.into() });
        }
        let ticket = tickets.draw();
        self.under_way = Some(ticket);
        Some(DiskJob { queue: DiskQueue::Bulk, ticket, ops })
    }
}

impl Data {
    fn take(&mut self, number: u32, bytes: Vec<u8>) {
        self.unwritten.insert(number, bytes);
        self.is_here(number);
    }

    fn is_here(&mut self, number: u32) {
        self.ahead.insert(number);
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }
}

/// Number of parts of the table.
fn table_part_count(manifest: &Manifest) -> u32 {
    manifest.table_bytes().div_ceil(BLOCK_BYTES_MAX) as u32
}
