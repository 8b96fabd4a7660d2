//! One file of the replica: its path, reads, and zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes per write when zeros are written.
pub(super) const ZERO_BLOCK: usize = 1 << 20;

/// Writes this many zeros from `offset` on.
pub(super) fn write_zeros(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0u8; ZERO_BLOCK.min(usize::try_from(bytes).unwrap_or(ZERO_BLOCK))];
    let mut done = 0;
    while done < bytes {
        let len = (bytes - done).min(zeros.len() as u64);
        file.write_all_at(&zeros[..len as usize], offset + done)?;
        done += len;
    }
    Ok(())
}

/// Reads up to `len` bytes; fewer at the end of the file.
pub(super) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    // Do not allocate more than the file has.
    let left = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; len.min(usize::try_from(left).unwrap_or(usize::MAX))];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The path of a file of the replica. The name must be a single component, so that a bug cannot reach other
/// directories.
pub(super) fn path(dir: &Path, name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is not a file name")));
    }
    Ok(dir.join(name))
}
