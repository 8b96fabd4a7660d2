//! Room on the disk: the operations that wait for room, and the reserve for a start on a full disk.
//!
//! An operation waits for room only if it can be repeated from its beginning. A create truncates the file and fills it
//! again. A write repeats the same bytes at the same offset, and no other code relies on them yet. A failed sync still
//! aborts the process, even for lack of room. The kernel may mark the pages as clean, and a second sync would report
//! success for bytes that are on no disk. So blocks are allocated before they are written, and a sync needs no new
//! ones.

use crate::limits::RESERVE_BYTES;
use crate::sys::disk;
use replica::disk::DiskOp;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the reserve in the data directory.
const RESERVE_FILE: &str = "reserve";
/// The reserve is created only if this many times its size is free, so that it does not fill the disk itself.
const FREE_TIMES_MIN: u64 = 3;

/// Whether an operation failed because the disk or the quota has no room.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an operation failed because it could not open its file: the process or the system has too many open ones.
/// Such an operation has changed nothing and synced nothing, so it can be repeated.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether an operation that failed for lack of room can be repeated. A record that bypasses the page cache is written
/// and synced by the same call. It can be repeated too: its bytes come from this process, not from pages that the
/// kernel may have dropped. So all of them are on the disk once the call succeeds.
pub(super) const fn may_repeat(op: &DiskOp) -> bool {
    match op {
        DiskOp::Create { .. } | DiskOp::Write { .. } | DiskOp::Zero { .. } => true,
        DiskOp::Rename { .. } | DiskOp::Remove { .. } => true,
        DiskOp::Sync { .. } | DiskOp::SyncDir => false,
    }
}

/// Allocates blocks, so that a full disk is detected here and not in a later sync. The file's size stays the same.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match disk::allocate(file, offset, bytes) {
        // Not every file system supports this. Then a write fails for lack of room, or a sync fails, which aborts the
        // process.
        Err(error) if is_no_room(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Allocates blocks for the part of a write that extends the file.
pub(super) fn allocate_beyond_end(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (len, end) = (file.metadata()?.len(), offset + bytes);
    if end <= len { Ok(()) } else { allocate(file, offset.max(len), end - offset.max(len)) }
}

/// A file that reserves room on the disk. A start that finds the disk full removes it.
pub(super) struct Reserve {
    dir: PathBuf,
    is_made: bool,
}

impl Reserve {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), is_made: dir.join(RESERVE_FILE).exists() }
    }

    pub(crate) const fn is_made(&self) -> bool {
        self.is_made
    }

    /// Creates the file if that leaves plenty of room for other data.
    pub(super) fn make_if_room(&mut self) {
        let has_room = disk::free_bytes(&self.dir).is_ok_and(|free| free >= FREE_TIMES_MIN * RESERVE_BYTES);
        if self.is_made || !has_room {
            return;
        }
        let path = self.dir.join(RESERVE_FILE);
        let made = OpenOptions::new().write(true).create(true).truncate(true).open(&path).and_then(|file| {
            disk::allocate(&file, 0, RESERVE_BYTES)?;
            file.set_len(RESERVE_BYTES)
        });
        if let Err(error) = made {
            tracing::warn!(%error, file = %path.display(), "cannot reserve room for a start on a full disk");
            let _ = std::fs::remove_file(&path);
        }
        // A file system without allocation has no reserve, so retrying is useless.
        self.is_made = true;
    }
}

/// Runs before a start: removes the reserve if there is little room. It also removes unused segments of the log. The
/// start would remove them anyway, but only after its first writes.
pub(crate) fn make_room(dir: &Path) -> io::Result<()> {
    if disk::free_bytes(dir)? >= RESERVE_BYTES {
        return Ok(());
    }
    let mut has_removed = false;
    for entry in std::fs::read_dir(dir)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        if name == RESERVE_FILE || replica::log::is_spare(&name) {
            std::fs::remove_file(path)?;
            has_removed = true;
        }
    }
    let dir = dir.display();
    if has_removed {
        tracing::warn!(%dir, "the disk is nearly full: removed the reserve and unused log segments; make room");
    } else {
        tracing::warn!(%dir, "the disk is nearly full, and there is no reserve left: make room");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_disk_is_waited_for_and_never_in_a_sync() {
        for (errno, is_it) in [(libc::ENOSPC, true), (libc::EDQUOT, true), (libc::EIO, false), (libc::EROFS, false)] {
            assert_eq!(is_no_room(&io::Error::from_raw_os_error(errno)), is_it, "{errno}");
        }
        for (errno, is_it) in [(libc::EMFILE, true), (libc::ENFILE, true), (libc::EIO, false), (libc::ENOSPC, false)] {
            assert_eq!(is_out_of_descriptors(&io::Error::from_raw_os_error(errno)), is_it, "{errno}");
        }
        let file = || "log".to_owned();
        assert!(may_repeat(&DiskOp::Create { file: file(), zeroed_bytes: 1 }));
        assert!(may_repeat(&DiskOp::Write { file: file(), offset: 0, data: vec![1] }));
        assert!(!may_repeat(&DiskOp::Sync { file: file() }) && !may_repeat(&DiskOp::SyncDir));
    }

    #[test]
    fn the_reserve_is_made_where_there_is_room_and_kept_while_there_is() {
        let dir = process::testing::test_dir("reserve");
        let mut reserve = Reserve::new(dir.path());
        assert!(!reserve.is_made());
        reserve.make_if_room();
        let file = dir.path().join(RESERVE_FILE);
        assert!(reserve.is_made() && Reserve::new(dir.path()).is_made());
        assert_eq!(file.metadata().unwrap().len(), RESERVE_BYTES);
        assert!(std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512 >= RESERVE_BYTES);
        make_room(dir.path()).unwrap();
        assert!(file.exists(), "the reserve was removed although the disk is not full");
    }
}
