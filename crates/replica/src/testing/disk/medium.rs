//! Faults of the medium of a [`MemoryDisk`], and a view of its durable contents.

use super::{MemoryDisk, SECTOR_BYTES};
use crate::disk::{DiskError, DiskRead};

/// The disk's contents after the worst power loss: only synced data.
#[derive(Clone, Copy, Debug)]
pub struct Durable<'d>(&'d MemoryDisk);

impl MemoryDisk {
    /// Returns the durable contents.
    #[must_use]
    pub const fn durable(&self) -> Durable<'_> {
        Durable(self)
    }

    /// Returns the durable bytes of a file.
    #[must_use]
    pub fn durable_bytes(&self, file: &str) -> Option<&[u8]> {
        self.durable_names.get(file).map(|number| self.files[number].durable.as_slice())
    }

    /// Returns the sectors that the last synced write of a file replaced: the offset and the old contents of each.
    #[must_use]
    pub fn replaced_sectors(&self, file: &str) -> Vec<(usize, Vec<u8>)> {
        let contents = self.names.get(file).map(|number| &self.files[number]);
        let Some((offset, old)) = contents.and_then(|contents| contents.replaced.as_ref()) else { return Vec::new() };
        // A write that begins inside a sector replaces only part of that sector.
        let skipped = offset.next_multiple_of(SECTOR_BYTES) - offset;
        let whole = old.get(skipped..).unwrap_or_default().chunks_exact(SECTOR_BYTES).enumerate();
        whole.map(|(nth, sector)| (offset + skipped + nth * SECTOR_BYTES, sector.to_vec())).collect()
    }

    /// Overwrites a sector of a file with zeros on the medium.
    ///
    /// # Panics
    /// If there is no such file or sector.
    pub fn zero_sector(&mut self, file: &str, offset: usize) {
        self.put_sector(file, offset, &[0; SECTOR_BYTES]);
    }

    /// Overwrites a sector of a file, both on the medium and for a process that reads it.
    ///
    /// # Panics
    /// If there is no such file or sector.
    pub fn put_sector(&mut self, file: &str, offset: usize, sector: &[u8]) {
        let contents = self.contents_mut(file);
        contents.current[offset..offset + SECTOR_BYTES].copy_from_slice(sector);
        if let Some(durable) = contents.durable.get_mut(offset..offset + SECTOR_BYTES) {
            durable.copy_from_slice(sector);
        }
    }
}

impl DiskRead for Durable<'_> {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let size = |number: &u64| self.0.files[number].durable.len() as u64;
        Ok(self.0.durable_names.iter().map(|(name, number)| (name.clone(), size(number))).collect())
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let bytes = self.0.durable_bytes(file).ok_or_else(|| DiskError::Missing { file: file.into() })?;
        let start = (offset as usize).min(bytes.len());
        let end = start.saturating_add(len).min(bytes.len());
        Ok(bytes[start..end].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskOp;

    #[test]
    fn durable_view_equals_the_worst_crash() {
        let mut disk = MemoryDisk::default();
        let write = |offset, byte, len| DiskOp::Write { file: "a".into(), offset, data: vec![byte; len] };
        for op in [
            DiskOp::Create { file: "a".into(), zeroed_bytes: 1536 },
            DiskOp::Sync { file: "a".into() },
            DiskOp::SyncDir,
            write(256, 7, 1280),
            DiskOp::Sync { file: "a".into() },
            write(0, 9, 1536),
            DiskOp::Create { file: "b".into(), zeroed_bytes: 1 },
        ] {
            disk.execute(&op);
        }
        let mut crashed = disk.clone();
        assert!(crashed.crash(&mut |_| 0));
        assert!(!crashed.crash(&mut |_| 0), "the durable contents changed in a crash");
        assert_eq!(disk.durable().list(), crashed.list());
        assert_eq!(disk.durable().read("a", 0, 9_999), crashed.read("a", 0, 9_999));
        assert_eq!(disk.replaced_sectors("a"), [(512, vec![0; 512]), (1024, vec![0; 512])]);
        crashed.put_sector("a", 512, &[0; 512]);
        assert_eq!(crashed.bytes("a"), crashed.durable_bytes("a"));
        assert_eq!(
            crashed.bytes("a").map(|bytes| [bytes[511], bytes[512], bytes[1023], bytes[1024]]),
            Some([7, 0, 0, 7])
        );
    }
}
