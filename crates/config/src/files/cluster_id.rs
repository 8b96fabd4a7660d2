//! `DIR/cluster.id`: the id of a cluster, 32 hexadecimal digits.
//!
//! It is the digest of the cluster's first CA. It stays the same when the CA is replaced.

use super::{Readers, read_optional, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use std::io;
use std::path::Path;

/// Reads the id. If the file is missing, `ca` is still the first CA, and the id is made from it.
pub fn load_or_make(path: &Path, ca: &[u8]) -> io::Result<[u8; 16]> {
    if let Some(text) = read_optional(path, SMALL_FILE_BYTES_MAX)? {
        return from_text(&text);
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, ca);
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_ref()[..16]);
    save(path, id)?;
    Ok(id)
}

/// Writes the id.
pub fn save(path: &Path, id: [u8; 16]) -> io::Result<()> {
    write_atomic(path, format!("{}\n", to_text(id)).as_bytes(), Readers::Owner)
}

/// The id as text.
pub fn to_text(id: [u8; 16]) -> String {
    data_encoding::HEXLOWER.encode(&id)
}

/// Parses the output of [`to_text`].
pub fn from_text(text: &[u8]) -> io::Result<[u8; 16]> {
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.trim_ascii()).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| io::Error::other("want 32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_made_from_the_first_ca_and_stays() {
        let dir = process::testing::test_dir("cluster-id");
        let path = dir.path().join("cluster.id");
        let id = load_or_make(&path, b"first").unwrap();
        assert_eq!(&ring::digest::digest(&ring::digest::SHA256, b"first").as_ref()[..16], id);
        assert_eq!(load_or_make(&path, b"second").unwrap(), id);
        assert_eq!(from_text(to_text(id).to_uppercase().as_bytes()).unwrap(), id);
        for damaged in ["", "00", &"0".repeat(34), &"x".repeat(32)] {
            std::fs::write(&path, damaged).unwrap();
            assert!(load_or_make(&path, b"first").is_err(), "{damaged:?} is never replaced");
        }
    }
}
