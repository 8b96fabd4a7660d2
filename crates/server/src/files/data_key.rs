//! The keys under which secrets are sealed in log entries and checkpoints.
//!
//! ```text
//!   catamaran-data-key 1 plain KEY      version of the file, how the key is kept, and the first key in base64
//!   KEY                                 version 0: read, and left as it is
//!   catamaran-data-key 2 plain CLIENTS  once the first key was replaced: what cookies and tickets follow from,
//!   NUMBER KEY                          and a line for each key
//! ```
//!
//! The version is there for a key that is wrapped by the node's own (docs/decisions/0010-data-key.md).

use super::token::fill_random;
use super::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use replica::DataKey;
use replica::limits::DATA_KEYS_MAX;
use ring::hmac;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

/// Octets of the key (ChaCha20-Poly1305, RFC 8439 2.8).
pub(crate) const DATA_KEY_OCTETS: usize = 32;

/// What the file begins with.
const FORM: &str = "catamaran-data-key 1 plain ";

/// What the file of several begins with.
const FORM_OF_SEVERAL: &str = "catamaran-data-key 2 plain ";

/// One key.
pub(crate) type Key = [u8; DATA_KEY_OCTETS];

/// What is in the file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DataKeys {
    /// The keys that seal secrets, by number: the one in use, one that is to be, those that still open something.
    pub(crate) keys: BTreeMap<u32, Key>,
    /// What cookies and tickets follow from. It stays when the others are replaced: nodes that start at different times
    /// agree on it.
    pub(crate) clients: Key,
}

impl fmt::Debug for DataKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKeys({:?})", self.keys.keys())
    }
}

impl DataKeys {
    /// The first key of a cluster.
    pub(crate) fn first(key: Key) -> Self {
        let source = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let tag = hmac::sign(&source, b"catamaran cookies and tickets 1");
        let clients = tag.as_ref().try_into().expect("SHA-256 has 32 octets");
        Self { keys: BTreeMap::from([(1, key)]), clients }
    }

    /// For the replica.
    pub(crate) fn to_replica(&self) -> Option<DataKey> {
        let mut keys = self.keys.iter();
        let (number, key) = keys.next()?;
        Some(keys.fold(DataKey::new(*number, key), |all, (number, key)| all.with(*number, key)))
    }

    /// Whether only the first key is there: then older software can read the file.
    fn is_first(&self) -> bool {
        self.keys.len() == 1 && self.keys.get(&1).is_some_and(|key| Self::first(*key) == *self)
    }
}

/// What tells a key from any other, without telling the key.
pub(crate) fn digest(key: &Key) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, &[&b"catamaran data key "[..], key].concat());
    digest.as_ref().try_into().expect("SHA-256 has 32 octets")
}

/// A random key.
pub(crate) fn make() -> io::Result<Key> {
    let mut key = [0; DATA_KEY_OCTETS];
    fill_random(&mut key)?;
    Ok(key)
}

/// Reads the keys, or makes the first (mode 0600).
pub(crate) fn load_or_make(path: &Path) -> io::Result<DataKeys> {
    match load(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keys = DataKeys::first(make()?);
            save(path, &keys)?;
            Ok(keys)
        }
        done => done,
    }
}

/// A key as text has it.
pub(crate) fn from_base64(text: &[u8]) -> Option<Key> {
    data_encoding::BASE64.decode(text.trim_ascii()).ok()?.try_into().ok()
}

/// Reads the keys.
pub(crate) fn load(path: &Path) -> io::Result<DataKeys> {
    let text = read_bounded(path, SMALL_FILE_BYTES_MAX)?;
    if let Some(several) = text.strip_prefix(FORM_OF_SEVERAL.as_bytes()) {
        return several_from(several).ok_or_else(|| io::Error::other("a line of it is no number and key"));
    }
    let key = match text.strip_prefix(FORM.as_bytes()) {
        Some(key) => key,
        None if text.starts_with(b"catamaran-data-key ") => {
            let what = "it is of a form that this software does not know: newer software wrote it";
            return Err(io::Error::other(what));
        }
        None => &text,
    };
    from_base64(key).map(DataKeys::first).ok_or_else(|| {
        io::Error::other(format!("no key in it: want `{FORM}` and {DATA_KEY_OCTETS} octets in base64, or these alone"))
    })
}

fn several_from(text: &[u8]) -> Option<DataKeys> {
    let mut lines = text.trim_ascii_end().split(|&octet| octet == b'\n');
    let clients = from_base64(lines.next()?)?;
    let mut keys = BTreeMap::new();
    for line in lines {
        let (number, key) = str::from_utf8(line).ok()?.split_once(' ')?;
        keys.insert(number.parse().ok()?, from_base64(key.as_bytes())?);
    }
    (!keys.is_empty() && keys.len() <= DATA_KEYS_MAX).then_some(DataKeys { keys, clients })
}

/// Writes the keys.
pub(crate) fn save(path: &Path, keys: &DataKeys) -> io::Result<()> {
    let base64 = |key: &Key| data_encoding::BASE64.encode(key);
    let text = match keys.keys.get(&1).filter(|_| keys.is_first()) {
        Some(first) => format!("{FORM}{}\n", base64(first)),
        None => {
            let lines: String = keys.keys.iter().map(|(number, key)| format!("{number} {}\n", base64(key))).collect();
            format!("{FORM_OF_SEVERAL}{}\n{lines}", base64(&keys.clients))
        }
    };
    write_atomic(path, text.as_bytes(), Readers::Owner)
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
        std::fs::write(&path, text.replace(" 1 plain ", " 3 plain ")).unwrap();
        assert!(load_or_make(&path).unwrap_err().to_string().contains("newer software"));
    }

    #[test]
    fn a_key_of_version_0_is_read_and_left() {
        let dir = crate::test_dir("data-key-0");
        let path = dir.path().join("data.key");
        let key: [u8; DATA_KEY_OCTETS] = std::array::from_fn(|index| index as u8);
        let bare = format!("{}\n", data_encoding::BASE64.encode(&key));
        std::fs::write(&path, &bare).unwrap();
        assert_eq!(load(&path).unwrap(), DataKeys::first(key));
        assert_eq!(load_or_make(&path).unwrap(), DataKeys::first(key));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), bare);
    }

    #[test]
    fn several_keys_are_read_as_written_and_the_first_one_leaves_nothing() {
        let dir = crate::test_dir("data-key-several");
        let path = dir.path().join("data.key");
        let first = load_or_make(&path).unwrap();
        let mut keys = first.clone();
        keys.keys.insert(2, make().unwrap());
        save(&path, &keys).unwrap();
        assert_eq!(load(&path).unwrap(), keys);
        keys.keys.remove(&1);
        save(&path, &keys).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&data_encoding::BASE64.encode(&first.keys[&1])));
        let read = load(&path).unwrap();
        assert_eq!((&read, read.clients), (&keys, first.clients));
        let ring = read.to_replica().unwrap();
        let sealed = DataKey::new(2, &keys.keys[&2]).seal([1; 12], b"c", b"secret");
        assert_eq!(ring.open(&sealed, b"c").as_deref(), Some(&b"secret"[..]));
        assert_eq!(first.to_replica().unwrap().open(&sealed, b"c"), None);
        for damaged in [&text[..text.len() - 9], &text.replace("\n2 ", "\nx "), &text.replace("\n2 ", "\n2")] {
            std::fs::write(&path, damaged).unwrap();
            assert!(load(&path).is_err(), "{damaged}");
        }
        assert_ne!(digest(&keys.keys[&2]), digest(&first.keys[&1]));
    }
}
