//! The key under which secrets are sealed in log entries and checkpoints.

use super::token::fill_random;
use super::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use std::io;
use std::path::Path;

/// Octets of the key (ChaCha20-Poly1305, RFC 8439 2.8).
pub(crate) const DATA_KEY_OCTETS: usize = 32;

/// Reads the key, or makes one (mode 0600).
pub(crate) fn load_or_make(path: &Path) -> io::Result<[u8; DATA_KEY_OCTETS]> {
    match load(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut key = [0; DATA_KEY_OCTETS];
            fill_random(&mut key)?;
            save(path, &key)?;
            Ok(key)
        }
        done => done,
    }
}

/// Reads the key.
pub(crate) fn load(path: &Path) -> io::Result<[u8; DATA_KEY_OCTETS]> {
    let text = read_bounded(path, SMALL_FILE_BYTES_MAX)?;
    let octets = data_encoding::BASE64.decode(text.trim_ascii()).ok();
    octets
        .and_then(|octets| octets.try_into().ok())
        .ok_or_else(|| io::Error::other(format!("no key in it: want {DATA_KEY_OCTETS} octets in base64")))
}

/// Writes a key.
pub(crate) fn save(path: &Path, key: &[u8; DATA_KEY_OCTETS]) -> io::Result<()> {
    write_atomic(path, format!("{}\n", data_encoding::BASE64.encode(key)).as_bytes(), Readers::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once() {
        let dir = crate::test_dir("data-key");
        let path = dir.path().join("data.key");
        assert_eq!(load(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let key = load_or_make(&path).unwrap();
        assert_eq!(load_or_make(&path).unwrap(), key);
        std::fs::write(&path, "AAAA").unwrap();
        assert!(load_or_make(&path).is_err(), "a damaged key is never replaced");
    }
}
