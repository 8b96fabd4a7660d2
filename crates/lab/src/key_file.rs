//! A key of 32 bytes in a file, as 64 hexadecimal digits.

use data_encoding::HEXLOWER_PERMISSIVE;
use lab::limits::KEY_BYTES_MAX;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Size of a key in bytes.
pub(crate) const BYTES: usize = 32;

/// Reads the key of a file. A missing file is created with access for its owner only, and `advice` is printed.
///
/// # Errors
/// If the file cannot be read or created, or has no valid key.
pub(crate) fn read_or_make(path: &Path, advice: &str) -> Result<[u8; BYTES], String> {
    let named = |error: &dyn Display| format!("{}: {error}", path.display());
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let mut key = [0; BYTES];
            let random = ring::rand::SystemRandom::new();
            ring::rand::SecureRandom::fill(&random, &mut key).map_err(|_| named(&"no random bytes"))?;
            let digits = HEXLOWER_PERMISSIVE.encode(&key);
            writeln!(file, "{digits}").and_then(|()| file.sync_all()).map_err(|error| named(&error))?;
            eprintln!("{}: created; {advice}", path.display());
            Ok(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let mut text = String::new();
            let file = File::open(path).map_err(|error| named(&error))?;
            file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(|error| named(&error))?;
            let key = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
            key.ok_or_else(|| named(&"not a key: write 64 hexadecimal digits"))
        }
        Err(error) => Err(named(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_read_then() {
        let path = std::env::temp_dir().join(format!("catlab-key-{}", std::process::id()));
        let made = read_or_make(&path, "keep it").unwrap();
        assert_eq!(read_or_make(&path, "keep it").unwrap(), made);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for wrong in ["00", &"0".repeat(63), &"g".repeat(64), ""] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read_or_make(&path, "keep it").unwrap_err().contains("64 hexadecimal digits"), "{wrong}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read_or_make(Path::new("/nowhere/key"), "keep it").unwrap_err().starts_with("/nowhere/key"));
    }
}
