//! A disk in memory. On a crash it loses unsynced data in the ways of real disks and file systems: any subset of the
//! unsynced sectors arrives, files end anywhere between their old and new size, and changes of names arrive in order
//! up to some point. A physical block that is larger than a sector arrives whole if all of it was written. If only a
//! part was written, the whole block may be destroyed.

// Faults of the medium, and the durable contents.
mod medium;

pub use medium::Durable;

use super::Choose;
use crate::disk::{DiskError, DiskOp, DiskRead};
use crate::log::limits::SECTOR_BYTES;
use std::collections::BTreeMap;

/// Files: their durable contents and names, and their unsynced changes.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    files: BTreeMap<u64, Contents>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Unsynced changes of names, oldest first.
    unsynced_names: Vec<NameChange>,
    file_count: u64,
    /// Bytes of a physical block; 0 if a block is one sector.
    block_bytes: usize,
    /// Largest total size of all files in bytes; `None` means no limit.
    capacity: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// Unsynced writes, oldest first.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// The bytes that the last synced write replaced, and their offset.
    replaced: Option<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, u64),
    Move(String, String),
    Remove(String),
}

impl MemoryDisk {
    /// An empty disk with physical blocks of this size.
    #[must_use]
    pub fn with_blocks(block_bytes: usize) -> Self {
        Self { block_bytes, ..Self::default() }
    }

    /// Limits the total size of the files from now on. The files may already be larger.
    pub const fn set_capacity(&mut self, bytes: Option<u64>) {
        self.capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.names.values().map(|number| self.files[number].current.len() as u64).sum()
    }

    /// Whether there is room for this operation. The caller must not execute an operation without room; a shell
    /// retries.
    pub fn has_room(&self, op: &DiskOp) -> bool {
        let Some(capacity) = self.capacity else { return true };
        let len = |file: &str| self.bytes(file).map_or(0, <[u8]>::len) as u64;
        let (before, after) = match op {
            DiskOp::Create { file, zeroed_bytes } => (len(file), *zeroed_bytes),
            DiskOp::Write { file, offset, data: bytes } => (len(file), offset + bytes.len() as u64),
            DiskOp::Zero { file, offset, bytes } => (len(file), offset + bytes),
            DiskOp::Sync { .. } | DiskOp::Rename { .. } | DiskOp::Remove { .. } | DiskOp::SyncDir => return true,
        };
        after <= before || self.used_bytes() + (after - before) <= capacity
    }

    /// Executes one operation.
    ///
    /// # Panics
    /// If it names a file that does not exist. The core never does that.
    pub fn execute(&mut self, op: &DiskOp) {
        match op {
            DiskOp::Create { file, zeroed_bytes } => {
                self.file_count += 1;
                let bytes = vec![0; *zeroed_bytes as usize];
                let contents = Contents { current: bytes.clone(), unsynced: vec![(0, bytes)], ..Contents::default() };
                self.files.insert(self.file_count, contents);
                self.rename(NameChange::Set(file.clone(), self.file_count));
            }
            DiskOp::Write { file, offset, data: bytes } => {
                let contents = self.contents_mut(file);
                write(&mut contents.current, *offset as usize, bytes);
                contents.unsynced.push((*offset as usize, bytes.clone()));
            }
            DiskOp::Zero { file, offset, bytes } => {
                let bytes = vec![0; *bytes as usize];
                self.execute(&DiskOp::Write { file: file.clone(), offset: *offset, data: bytes });
            }
            DiskOp::Sync { file } => {
                self.contents_mut(file).sync();
            }
            DiskOp::Rename { from, to } => {
                assert!(self.names.contains_key(from), "{from} is renamed and not there");
                self.rename(NameChange::Move(from.clone(), to.clone()));
            }
            DiskOp::Remove { file } => self.rename(NameChange::Remove(file.clone())),
            DiskOp::SyncDir => {
                self.durable_names = self.names.clone();
                self.unsynced_names.clear();
                self.forget_unnamed();
            }
        }
    }

    /// Simulates a power loss: unsynced data arrives in part. Returns whether a process sees other bytes or names than
    /// before.
    pub fn crash(&mut self, choose: Choose<'_>) -> bool {
        let arrived = choose(self.unsynced_names.len() as u64 + 1) as usize;
        for change in std::mem::take(&mut self.unsynced_names).into_iter().take(arrived) {
            apply(&mut self.durable_names, change);
        }
        let mut is_changed = self.names != self.durable_names;
        self.names = self.durable_names.clone();
        self.forget_unnamed();
        for contents in self.files.values_mut() {
            is_changed |= contents.crash(self.block_bytes, choose);
        }
        is_changed
    }

    /// Simulates a failed sync, which ends the process. The data arrives in part, but the kernel treats all of it as
    /// written, and it can be read until power is lost.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn fail_sync(&mut self, file: &str, choose: Choose<'_>) {
        let block_bytes = self.block_bytes;
        self.contents_mut(file).arrive(block_bytes, choose);
    }

    /// Files with unsynced data.
    pub fn unsynced(&self) -> Vec<String> {
        let is_unsynced = |number: &u64| !self.files[number].unsynced.is_empty();
        self.names.iter().filter(|(_, number)| is_unsynced(number)).map(|(name, _)| name.clone()).collect()
    }

    /// Flips one bit of a file on the medium.
    ///
    /// # Panics
    /// If there is no such file or bit.
    pub fn flip(&mut self, file: &str, bit: usize) {
        let contents = self.contents_mut(file);
        contents.current[bit / 8] ^= 1 << (bit % 8);
        if let Some(byte) = contents.durable.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Loses a file for good.
    pub fn lose(&mut self, file: &str) {
        self.names.remove(file);
        self.durable_names.remove(file);
    }

    /// Whether no change waits for a sync.
    pub fn is_synced(&self) -> bool {
        self.unsynced_names.is_empty() && self.names.values().all(|number| self.files[number].unsynced.is_empty())
    }

    /// Bytes of a file as a process sees them.
    pub fn bytes(&self, file: &str) -> Option<&[u8]> {
        self.names.get(file).map(|number| self.files[number].current.as_slice())
    }

    fn contents_mut(&mut self, file: &str) -> &mut Contents {
        let number = self.names.get(file).unwrap_or_else(|| panic!("{file} is not there"));
        self.files.get_mut(number).expect("names name files")
    }

    fn rename(&mut self, change: NameChange) {
        apply(&mut self.names, change.clone());
        self.unsynced_names.push(change);
    }

    fn forget_unnamed(&mut self) {
        let Self { files, names, durable_names, unsynced_names, .. } = self;
        if unsynced_names.is_empty() {
            let used: std::collections::BTreeSet<u64> = names.values().chain(durable_names.values()).copied().collect();
            files.retain(|number, _| used.contains(number));
        }
    }
}

impl DiskRead for MemoryDisk {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let size = |number: &u64| self.files[number].current.len() as u64;
        Ok(self.names.iter().map(|(name, number)| (name.clone(), size(number))).collect())
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let bytes = self.bytes(file).ok_or_else(|| DiskError::Missing { file: file.into() })?;
        let start = (offset as usize).min(bytes.len());
        let end = start.saturating_add(len).min(bytes.len());
        Ok(bytes[start..end].to_vec())
    }
}

impl Contents {
    fn sync(&mut self) {
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let end = (offset + bytes.len()).min(self.durable.len());
            if let Some(old) = self.durable.get(offset..end) {
                self.replaced = Some((offset, old.to_vec()));
            }
            write(&mut self.durable, offset, &bytes);
        }
    }

    /// Returns whether a process sees other bytes than before.
    fn crash(&mut self, block_bytes: usize, choose: Choose<'_>) -> bool {
        self.arrive(block_bytes, choose);
        let is_changed = self.current != self.durable;
        if is_changed {
            self.current.clone_from(&self.durable);
        }
        is_changed
    }

    /// Makes part of the unsynced data durable and drops the rest.
    fn arrive(&mut self, block_bytes: usize, choose: Choose<'_>) {
        let block_bytes = block_bytes.max(SECTOR_BYTES);
        let fate = choose(4);
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let mut at = 0;
            while at < bytes.len() {
                // The disk's blocks are aligned to the file, not to the write.
                let within = (offset + at) % block_bytes;
                let len = (block_bytes - within).min(bytes.len() - at);
                let is_whole = within == 0 && (len == block_bytes || offset + at + len >= self.durable.len());
                let arrives = match fate {
                    0 => false,
                    1 => true,
                    _ => choose(2) == 1,
                };
                if block_bytes > SECTOR_BYTES && !is_whole && fate > 1 && choose(2) == 1 {
                    self.corrupt(offset + at - within, block_bytes);
                } else if arrives {
                    write(&mut self.durable, offset + at, &bytes[at..at + len]);
                }
                at += len;
            }
        }
    }

    /// Destroys the rest of a block, like a disk that loses power during read-modify-write.
    fn corrupt(&mut self, start: usize, block_bytes: usize) {
        let end = (start + block_bytes).min(self.durable.len());
        self.durable[start.min(end)..end].fill(0);
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: NameChange) {
    match change {
        NameChange::Set(name, number) => {
            names.insert(name, number);
        }
        NameChange::Move(from, to) => {
            if let Some(number) = names.remove(&from) {
                names.insert(to, number);
            }
        }
        NameChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op_write(bytes: Vec<u8>) -> DiskOp {
        DiskOp::Write { file: "a".into(), offset: 0, data: bytes }
    }

    #[test]
    fn only_synced_bytes_and_names_survive_a_crash() {
        let mut disk = MemoryDisk::default();
        disk.execute(&DiskOp::Create { file: "a".into(), zeroed_bytes: 2048 });
        disk.execute(&DiskOp::Sync { file: "a".into() });
        let mut unnamed = disk.clone();
        unnamed.crash(&mut |_| 0);
        assert_eq!(unnamed.list().unwrap(), []);
        disk.execute(&DiskOp::SyncDir);
        disk.execute(&op_write(vec![7; 2048]));
        let mut lost = disk.clone();
        lost.crash(&mut |_| 0);
        assert_eq!(lost.read("a", 0, 4096).unwrap(), vec![0; 2048]);
        let mut draw = 0;
        disk.crash(&mut |below| {
            draw += 1;
            if below == 4 { 2 } else { draw % 2 % below }
        });
        let torn = disk.read("a", 0, 4096).unwrap();
        let sectors: Vec<u8> = torn.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
        assert_eq!(sectors.iter().filter(|first| **first == 7).count(), 2);
        assert!(torn.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    }

    #[test]
    fn a_rename_that_was_not_synced_leaves_either_name() {
        let mut disk = MemoryDisk::default();
        disk.execute(&DiskOp::Create { file: "a".into(), zeroed_bytes: 512 });
        disk.execute(&DiskOp::Sync { file: "a".into() });
        disk.execute(&DiskOp::SyncDir);
        disk.execute(&DiskOp::Rename { from: "a".into(), to: "b".into() });
        for (draw, name) in [(0, "a"), (1, "b")] {
            let mut crashed = disk.clone();
            crashed.crash(&mut |below| draw % below);
            assert_eq!(crashed.list().unwrap(), [(name.to_string(), 512)]);
        }
    }
}
