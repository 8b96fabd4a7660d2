//! Writes a checkpoint to disk, one block per job.

use super::WRITING_FILE;
use super::format::{CheckpointHeader, HEADER_BYTES, Manifest, Section, Table};
use super::limits::{BLOCK_BYTES_MAX, BLOCKS_MAX, ITEM_BYTES_MAX, STEP_BYTES, UNSYNCED_BYTES_MAX};
use crate::disk::{DiskJob, DiskOp, DiskQueue, Tickets};

/// The state as items in a fixed order. It is a frozen version, so updates continue meanwhile.
pub trait CheckpointItems {
    /// Appends the next item, of at most [`ITEM_BYTES_MAX`] bytes, to `bytes`, which is empty. Returns `None` at the
    /// end and from then on. Items of one section are consecutive.
    fn next_item(&mut self, bytes: &mut Vec<u8>) -> Option<Section>;
}

/// The result of [`CheckpointWriter::persisted`].
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// The ticket is not the writer's.
    NotOurs,
    /// Poll again.
    More,
    /// The checkpoint is durable under its name.
    Whole(Box<(Manifest, Table)>),
}

/// The result of [`CheckpointWriter::poll_step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// A job for the disk is ready.
    Job(DiskJob),
    /// Part of a block was filled.
    Part,
    /// Nothing to do: a job is running, or the checkpoint is complete.
    None,
}

impl WriteStep {
    /// The disk job, if there is one.
    pub fn into_job(self) -> Option<DiskJob> {
        match self {
            Self::Job(job) => Some(job),
            Self::Part | Self::None => None,
        }
    }
}

/// The state of a block after some items.
enum Block {
    Whole(u64, Vec<u8>),
    Part,
    /// No item is left.
    End,
}

/// Writes one checkpoint.
#[derive(Debug)]
pub struct CheckpointWriter {
    header: CheckpointHeader,
    table: Table,
    block: Vec<u8>,
    section: Section,
    item: Vec<u8>,
    unsynced_bytes: u64,
    under_way: Option<u64>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Start,
    Blocks,
    Last(Box<Manifest>),
}

impl CheckpointWriter {
    /// A writer before its first block.
    pub fn new(header: CheckpointHeader) -> Self {
        Self {
            header,
            table: Table::new(),
            block: Vec::new(),
            section: Section(0),
            item: Vec::new(),
            unsynced_bytes: 0,
            under_way: None,
            stage: Stage::Start,
        }
    }

    /// Bytes of blocks written or being written.
    pub fn bytes(&self) -> u64 {
        self.table.data_bytes()
    }

    /// Whether a job is running and its ticket will come back.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The next job, with items for at most one block; `None` while a job is running and after the last.
    ///
    /// # Panics
    /// If an item is larger than [`ITEM_BYTES_MAX`], or the state larger than [`BLOCKS_MAX`] blocks.
    pub fn poll(&mut self, items: &mut dyn CheckpointItems, tickets: &mut Tickets) -> Option<DiskJob> {
        loop {
            match self.poll_step(items, tickets) {
                WriteStep::Job(job) => return Some(job),
                WriteStep::Part => {}
                WriteStep::None => return None,
            }
        }
    }

    /// The same in steps. Each takes at most [`STEP_BYTES`] of items and one item more.
    ///
    /// # Panics
    /// As [`CheckpointWriter::poll`].
    pub fn poll_step(&mut self, items: &mut dyn CheckpointItems, tickets: &mut Tickets) -> WriteStep {
        if self.under_way.is_some() {
            return WriteStep::None;
        }
        let mut ops = Vec::new();
        match self.stage {
            Stage::Start => {
                ops.push(DiskOp::Create { file: WRITING_FILE.into(), zeroed_bytes: 0 });
                ops.push(self.write(0, self.header.encode()));
                self.stage = Stage::Blocks;
            }
            Stage::Blocks => match self.next_block(items) {
                Block::Part => return WriteStep::Part,
                Block::Whole(offset, block) => {
                    self.unsynced_bytes += block.len() as u64;
                    ops.push(self.write(offset, block));
                    if self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
                        self.unsynced_bytes = 0;
                        ops.push(DiskOp::Sync { file: WRITING_FILE.into() });
                    }
                }
                Block::End => {
                    let manifest = Manifest::new(self.header.clone(), &self.table);
                    ops.push(self.write(manifest.table_offset(), self.table.as_bytes().to_vec()));
                    ops.push(self.write(manifest.trailer_offset(), manifest.encode_trailer()));
                    if !planted!(CheckpointNotSynced) {
                        ops.push(DiskOp::Sync { file: WRITING_FILE.into() });
                    }
                    ops.push(DiskOp::Rename { from: WRITING_FILE.into(), to: manifest.file() });
                    ops.push(DiskOp::SyncDir);
                    self.stage = Stage::Last(Box::new(manifest));
                }
            },
            Stage::Last(_) => return WriteStep::None,
        }
        let ticket = tickets.draw();
        self.under_way = Some(ticket);
        WriteStep::Job(DiskJob { queue: DiskQueue::Bulk, ticket, ops })
    }

    /// Takes the result of a job.
    pub fn persisted(&mut self, ticket: u64) -> Written {
        if self.under_way != Some(ticket) {
            return Written::NotOurs;
        }
        self.under_way = None;
        match &self.stage {
            Stage::Last(manifest) => {
                let table = std::mem::replace(&mut self.table, Table::new());
                Written::Whole(Box::new(((**manifest).clone(), table)))
            }
            _ => Written::More,
        }
    }

    fn write(&self, offset: u64, bytes: Vec<u8>) -> DiskOp {
        DiskOp::Write { file: WRITING_FILE.into(), offset, data: bytes }
    }

    /// Fills a block; returns its state.
    fn next_block(&mut self, items: &mut dyn CheckpointItems) -> Block {
        let mut taken = 0;
        loop {
            self.item.clear();
            let section = items.next_item(&mut self.item);
            assert!(self.item.len() <= ITEM_BYTES_MAX, "an item of {} bytes", self.item.len());
            let fits = section == Some(self.section) && self.block.len() + 4 + self.item.len() <= BLOCK_BYTES_MAX;
            let done = if fits || self.block.is_empty() { None } else { Some(self.close_block()) };
            if let Some(section) = section {
                self.section = section;
                self.block.extend_from_slice(&(self.item.len() as u32).to_be_bytes());
                self.block.extend_from_slice(&self.item);
            }
            taken += self.item.len();
            match done {
                Some((offset, block)) => return Block::Whole(offset, block),
                None if section.is_none() => return Block::End,
                None if taken >= STEP_BYTES => return Block::Part,
                None => {}
            }
        }
    }

    fn close_block(&mut self) -> (u64, Vec<u8>) {
        assert!(self.table.block_count() < BLOCKS_MAX, "state is bounded below {BLOCKS_MAX} blocks");
        let block = std::mem::take(&mut self.block);
        let offset = self.table.push(self.section, &block);
        debug_assert!(offset >= HEADER_BYTES as u64);
        (offset, block)
    }
}
