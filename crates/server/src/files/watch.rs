//! Files that are looked at again and again, and taken up when they change.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What tells a file from the one that lay there before: its number, its size, and when it was changed.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Files that belong together.
pub(crate) struct Watch<const N: usize> {
    files: [PathBuf; N],
    /// As they were taken up last.
    taken: Option<[Stamp; N]>,
    seen: [Stamp; N],
}

impl<const N: usize> Watch<N> {
    /// What was read before this may be older than what this sees: the first look says that there is something new.
    pub(crate) fn new(files: [PathBuf; N]) -> Self {
        let seen = stamps(&files);
        Self { files, taken: None, seen }
    }

    /// Whether the files are to be read again. Several are never changed at once: what has changed since the last look
    /// is left for the next.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = stamps(&self.files);
        let is_settled = std::mem::replace(&mut self.seen, now) == now;
        is_settled && self.taken.replace(now) != Some(now)
    }
}

fn stamps<const N: usize>(files: &[PathBuf; N]) -> [Stamp; N] {
    std::array::from_fn(|index| {
        let data = std::fs::metadata(&files[index]).ok()?;
        Some((data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_when_it_has_settled() {
        let dir = crate::test_dir("watch");
        let files = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&files[0], "1").unwrap();
        let mut watch = Watch::new(files.clone());
        assert!(watch.has_changed(), "what was read before may be older");
        assert!(!watch.has_changed());
        std::fs::write(&files[1], "2").unwrap();
        assert!(!watch.has_changed(), "the other file may be about to change");
        assert!(watch.has_changed());
        assert!(!watch.has_changed());
    }
}
