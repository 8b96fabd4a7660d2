//! Reads checkpoints: blocking at start, and asynchronously while the replica runs.

use super::format::{
    CheckpointDamage, CheckpointHeader, DamageKind, HEADER_BYTES, Manifest, Section, TRAILER_BYTES, Table, items,
};
use super::limits::LOAD_READS_MAX;
use super::name::{CheckpointRef, checkpoint_file};
use crate::disk::{DiskError, DiskRead, ReadFile, Tickets};
use core::fmt;
use std::collections::BTreeMap;

/// Why a checkpoint could not be read at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointError {
    /// It is damaged: the replica goes into quarantine.
    Damage(CheckpointDamage),
    /// The disk could not be read, or the file is missing.
    Disk(DiskError),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => damage.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<DiskError> for CheckpointError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// A complete checkpoint on disk, read at start.
#[derive(Debug)]
pub struct CheckpointReader {
    file: String,
    manifest: Manifest,
    table: Table,
}

impl CheckpointReader {
    /// Reads and verifies header, table and trailer of the checkpoint that the log refers to.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn open(disk: &dyn DiskRead, checkpoint: &CheckpointRef) -> Result<Self, CheckpointError> {
        let reader = Self::open_file(disk, checkpoint_file(checkpoint))?;
        if reader.manifest.reference() != *checkpoint {
            return Err(CheckpointError::Damage(CheckpointDamage { file: reader.file, what: DamageKind::Other }));
        }
        Ok(reader)
    }

    /// The same for a file of any name; the file itself tells which checkpoint it is.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn open_file(disk: &dyn DiskRead, file: String) -> Result<Self, CheckpointError> {
        let damage = |what: DamageKind| CheckpointError::Damage(CheckpointDamage { file: file.clone(), what });
        let files = disk.list()?;
        let (_, bytes) = files
            .iter()
            .find(|(name, _)| *name == file)
            .ok_or_else(|| CheckpointError::Disk(DiskError::Missing { file: file.clone() }))?;
        let header = CheckpointHeader::decode(&disk.read(&file, 0, HEADER_BYTES)?).map_err(damage)?;
        let trailer_at = bytes.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| damage(DamageKind::Trailer))?;
        let trailer = disk.read(&file, trailer_at, TRAILER_BYTES)?;
        let manifest = Manifest::decode_trailer(header, &trailer).ok_or_else(|| damage(DamageKind::Trailer))?;
        if manifest.file_bytes() != *bytes {
            return Err(damage(DamageKind::Trailer));
        }
        let data = disk.read(&file, manifest.table_offset(), manifest.table_bytes())?;
        let table = Table::decode(&manifest, data).ok_or_else(|| damage(DamageKind::Table))?;
        Ok(Self { file, manifest, table })
    }

    /// Description of the checkpoint.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Manifest and table, for [`super::CheckpointServer::offer`].
    pub fn into_parts(self) -> (Manifest, Table) {
        (self.manifest, self.table)
    }

    /// Calls `each` with all items in order, after verifying their block.
    ///
    /// # Errors
    /// [`CheckpointError`]. Items of earlier blocks were passed to `each` by then.
    pub fn for_each_item(
        &self,
        disk: &dyn DiskRead,
        mut each: impl FnMut(Section, &[u8]),
    ) -> Result<(), CheckpointError> {
        let file = &self.file;
        let damage = |what: DamageKind| CheckpointError::Damage(CheckpointDamage { file: file.clone(), what });
        for number in 0..self.table.block_count() {
            let line = self.table.line(number).ok_or_else(|| damage(DamageKind::Table))?;
            let block = disk.read(file, line.offset, line.len)?;
            if !line.is_block(&block) {
                return Err(damage(DamageKind::Block(number)));
            }
            for item in items(number, &block) {
                each(line.section, item.map_err(damage)?);
            }
        }
        Ok(())
    }
}

/// Reads a checkpoint while the replica runs, after a transfer.
#[derive(Debug)]
pub struct CheckpointLoader {
    file: String,
    table: Table,
    /// The block to read next, and the block to return next.
    next_read: u32,
    next_block: u32,
    under_way: BTreeMap<u64, u32>,
    arrived: BTreeMap<u32, Vec<u8>>,
}

impl CheckpointLoader {
    /// A loader that has read nothing yet.
    pub fn new(manifest: &Manifest, table: Table) -> Self {
        let (under_way, arrived) = (BTreeMap::new(), BTreeMap::new());
        Self { file: manifest.file(), table, next_read: 0, next_block: 0, under_way, arrived }
    }

    /// The next read, if there is room for its result.
    pub fn poll(&mut self, tickets: &mut Tickets) -> Option<ReadFile> {
        if self.under_way.len() + self.arrived.len() >= LOAD_READS_MAX {
            return None;
        }
        let line = self.table.line(self.next_read)?;
        let ticket = tickets.draw();
        self.under_way.insert(ticket, self.next_read);
        self.next_read += 1;
        Some(ReadFile { ticket, file: self.file.clone(), offset: line.offset, len: line.len })
    }

    /// Whether this read belongs to the loader.
    pub fn is_reading(&self, ticket: u64) -> bool {
        self.under_way.contains_key(&ticket)
    }

    /// Takes the result of a read; returns whether the ticket was the loader's.
    ///
    /// # Errors
    /// [`CheckpointDamage`] if the block does not verify.
    pub fn file_read(&mut self, ticket: u64, bytes: Vec<u8>) -> Result<bool, CheckpointDamage> {
        let Some(number) = self.under_way.remove(&ticket) else { return Ok(false) };
        if !self.table.line(number).is_some_and(|line| line.is_block(&bytes)) {
            return Err(CheckpointDamage { file: self.file.clone(), what: DamageKind::Block(number) });
        }
        self.arrived.insert(number, bytes);
        Ok(true)
    }

    /// The next block in order, verified, with its number and section; its [`items`] are the state.
    pub fn next_block(&mut self) -> Option<(u32, Section, Vec<u8>)> {
        let number = self.next_block;
        let block = self.arrived.remove(&number)?;
        self.next_block += 1;
        Some((number, self.table.line(number)?.section, block))
    }

    /// Whether all blocks were returned.
    pub fn is_done(&self) -> bool {
        self.next_block == self.table.block_count()
    }

    /// The table, for [`super::CheckpointServer::offer`].
    pub fn into_table(self) -> Table {
        self.table
    }
}

/// The checkpoint in a file, if every byte is intact.
pub fn verified(disk: &dyn DiskRead, file: &str) -> Option<CheckpointRef> {
    let reader = CheckpointReader::open_file(disk, file.to_owned()).ok()?;
    reader.for_each_item(disk, |_, _| {}).ok()?;
    Some(reader.manifest().reference())
}
