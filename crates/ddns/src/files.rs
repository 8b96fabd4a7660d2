//! Reads files up to a limit, and writes files atomically.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a whole file of at most `bytes_max` bytes.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Replaces `path` by `bytes`: a reader sees the old file or the new one. With `is_synced`, so does the next boot.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    // Left by a crash.
    let _ = std::fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    file.write_all(bytes)?;
    if is_synced {
        file.sync_all()?;
    }
    std::fs::rename(&new, path)?;
    if is_synced {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
