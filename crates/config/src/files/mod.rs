//! Files that users and other programs read. They are written atomically, and secrets are for their owner only.

// Files in DIR.
pub mod api_token;
pub mod audit_log;
pub mod cluster_id;
pub mod cluster_json;
pub mod data_key;
pub mod key_file;
pub mod layout;
pub mod local_socket;
pub mod secret_length;
// Permissions and tokens.
pub mod tighten;
pub mod token;
mod wrapping;
// Zone files.
mod decompress;
pub mod zone_load;
pub mod zone_source;
// Detects changes of files.
pub mod watch;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permissions of a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readers {
    /// Everyone (mode 0644): certificates.
    All,
    /// The owner only (mode 0600).
    Owner,
}

/// Reads a whole file of at most `bytes_max` bytes.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Reads a whole file of at most `bytes_max` bytes. `None` if it does not exist.
pub fn read_optional(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match read_bounded(path, bytes_max) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Adds the file's name to an error, and keeps its kind.
pub fn of_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Replaces `path` by `bytes`: a reader sees the old file or the new one, and so does the next boot.
pub fn write_atomic(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let mode = if readers == Readers::Owner { 0o600 } else { 0o644 };
    // A file left by a crash may have another mode.
    let _ = std::fs::remove_file(&new);
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    if let Err(error) = fill(file, bytes, mode).and_then(|()| std::fs::rename(&new, path)) {
        // On a full disk, a partly written file must not stay.
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(dir)?.sync_all()
}

fn fill(mut file: File, bytes: &[u8], mode: u32) -> io::Result<()> {
    // Independent of the umask.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_atomically_with_their_mode() {
        let dir = process::testing::test_dir("write-atomic");
        let path = dir.path().join("secret");
        write_atomic(&path, b"one", Readers::Owner).unwrap();
        write_atomic(&path, b"two", Readers::Owner).unwrap();
        assert_eq!(read_bounded(&path, 3).unwrap(), b"two");
        assert_eq!(read_optional(&path.with_file_name("none"), 3).unwrap(), None);
        assert!(read_bounded(&path, 2).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
