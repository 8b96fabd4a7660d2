//! Detects changes of files by polling.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identifies a version of a file: inode, size and modification time.
pub(super) type Stamp = Option<(u64, u64, i64, i64)>;

/// Files that belong together.
pub struct Watch<const N: usize> {
    files: [PathBuf; N],
    /// The versions that were last reported as changed.
    taken: Option<[Stamp; N]>,
    seen: [Stamp; N],
}

impl<const N: usize> Watch<N> {
    /// The first poll reports a change, since the files may have changed after they were read.
    pub fn new(files: [PathBuf; N]) -> Self {
        let seen = stamps(&files);
        Self { files, taken: None, seen }
    }

    /// Whether the files must be read again. A change is reported only if the files did not change since the previous
    /// poll: several files are never changed at once.
    pub fn has_changed(&mut self) -> bool {
        let now = stamps(&self.files);
        let is_settled = std::mem::replace(&mut self.seen, now) == now;
        is_settled && self.taken.replace(now) != Some(now)
    }
}

fn stamps<const N: usize>(files: &[PathBuf; N]) -> [Stamp; N] {
    std::array::from_fn(|index| stamp(&files[index]))
}

pub(super) fn stamp(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_when_it_is_complete() {
        let dir = process::testing::test_dir("watch");
        let files = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&files[0], "1").unwrap();
        let mut watch = Watch::new(files.clone());
        assert!(watch.has_changed(), "the files may have changed since they were read");
        assert!(!watch.has_changed());
        std::fs::write(&files[1], "2").unwrap();
        assert!(!watch.has_changed(), "the other file may be about to change");
        assert!(watch.has_changed());
        assert!(!watch.has_changed());
    }
}
