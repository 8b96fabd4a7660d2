//! The key under which secrets are sealed in log entries and checkpoints.
//!
//! ```text
//!   catamaran-data-key 1 plain KEY      version of the file, how the key is kept, and the key in base64
//!   KEY                                 version 0: read, and left as it is
//! ```
//!
//! The version is there for a key that is wrapped by the node's own (docs/decisions/0010-data-key.md).

use super::token::fill_random;
use super::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use std::io;
use std::path::Path;

/// Octets of the key (ChaCha20-Poly1305, RFC 8439 2.8).
pub(crate) const DATA_KEY_OCTETS: usize = 32;

/// What the file begins with.
const FORM: &str = "catamaran-data-key 1 plain ";

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
    let key = match text.strip_prefix(FORM.as_bytes()) {
        Some(key) => key,
        None if text.starts_with(b"catamaran-data-key ") => {
            let what = "it is of a form that this software does not know: newer software wrote it";
            return Err(io::Error::other(what));
        }
        None => &text,
    };
    let octets = data_encoding::BASE64.decode(key.trim_ascii()).ok();
    octets.and_then(|octets| octets.try_into().ok()).ok_or_else(|| {
        io::Error::other(format!("no key in it: want `{FORM}` and {DATA_KEY_OCTETS} octets in base64, or these alone"))
    })
}

/// Writes a key.
pub(crate) fn save(path: &Path, key: &[u8; DATA_KEY_OCTETS]) -> io::Result<()> {
    write_atomic(path, format!("{FORM}{}\n", data_encoding::BASE64.encode(key)).as_bytes(), Readers::Owner)
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
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(FORM) && text.ends_with('\n'), "the file says of which form it is");
        let half = &text[..text.len() / 2];
        for damaged in ["AAAA", "catamaran-data-key 1 plain AAAA", "", half, &text.repeat(2)] {
            std::fs::write(&path, damaged).unwrap();
            let error = load_or_make(&path).unwrap_err();
            assert!(error.to_string().starts_with("no key in it"), "a damaged key is never replaced: {error}");
        }
        std::fs::write(&path, text.replace(" 1 plain ", " 2 wrapped ")).unwrap();
        assert!(load_or_make(&path).unwrap_err().to_string().contains("newer software"));
    }

    #[test]
    fn a_key_of_version_0_is_read_and_left() {
        let dir = crate::test_dir("data-key-0");
        let path = dir.path().join("data.key");
        let key: [u8; DATA_KEY_OCTETS] = std::array::from_fn(|index| index as u8);
        let bare = format!("{}\n", data_encoding::BASE64.encode(&key));
        std::fs::write(&path, &bare).unwrap();
        assert_eq!(load(&path).unwrap(), key);
        assert_eq!(load_or_make(&path).unwrap(), key);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), bare);
    }
}
