//! The keys that seal secrets in log entries and checkpoints.
//!
//! ```text
//!   catamaran-data-key 3 wrapped TEXT   one of the next two, encrypted with the wrapping key: the form that is written
//!   catamaran-data-key 1 plain KEY      file version, encryption, and the first key in base64
//!   catamaran-data-key 2 plain CLIENTS  after the first key was replaced: the secret of cookies and tickets for older
//!   NUMBER KEY                          versions, and a line for each key
//!   KEY                                 version 0
//! ```
//!
//! All forms are read. A plain file is not rewritten until the keys change, so that older versions can read it. A copy
//! for a backup is plain.

use super::token::fill_random;
use super::{Readers, read_bounded, wrapping, write_atomic};
use crate::limits::{DATA_KEYS_MAX, SMALL_FILE_BYTES_MAX};
use ring::hmac;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the key (ChaCha20-Poly1305, RFC 8439 2.8).
pub const DATA_KEY_BYTES: usize = 32;

/// Prefix of a file with the first key.
const FORM: &str = "catamaran-data-key 1 plain ";

/// Prefix of a file with several keys.
const FORM_OF_SEVERAL: &str = "catamaran-data-key 2 plain ";

/// Prefix of an encrypted file.
const FORM_WRAPPED: &str = "catamaran-data-key 3 wrapped ";

/// Default file name of the wrapping key.
const WRAPPING_KEY: &str = "wrapping.key";

/// One key.
pub type Key = [u8; DATA_KEY_BYTES];

/// The contents of the file.
#[derive(Clone, PartialEq, Eq)]
pub struct DataKeys {
    /// The keys by number: the current one, the next one during a rotation, and old ones that are still needed.
    pub keys: BTreeMap<u32, Key>,
    /// The secret of cookies and tickets of older versions. It never changes. This version derives them from the keys
    /// ([`client_secret`]).
    pub clients: Key,
}

/// Overwrites them in memory.
impl Drop for DataKeys {
    fn drop(&mut self) {
        self.keys.values_mut().for_each(Zeroize::zeroize);
        self.clients.zeroize();
    }
}

impl fmt::Debug for DataKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKeys({:?})", self.keys.keys())
    }
}

impl DataKeys {
    /// The first key of a cluster.
    pub fn first(key: Key) -> Self {
        Self { keys: BTreeMap::from([(1, key)]), clients: client_secret(&key) }
    }

    /// Whether there is only the first key. Then older software can read the file.
    fn is_first(&self) -> bool {
        self.keys.len() == 1 && self.keys.get(&1).is_some_and(|key| Self::first(*key) == *self)
    }
}

/// The secret from which cookies, tickets and address tokens are derived, for this data key. Older versions always use
/// the secret of the first key.
pub fn client_secret(key: &Key) -> Key {
    let source = hmac::Key::new(hmac::HMAC_SHA256, key);
    let tag = hmac::sign(&source, b"catamaran cookies and tickets 1");
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A digest that identifies a key.
pub fn digest(key: &Key) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, &[&b"catamaran data key "[..], key].concat());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A random key.
pub fn make() -> io::Result<Key> {
    let mut key = [0; DATA_KEY_BYTES];
    fill_random(&mut key)?;
    Ok(key)
}

/// The file of the data keys, and the file of the key that encrypts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataKeyFile {
    path: PathBuf,
    wrapping: PathBuf,
}

impl DataKeyFile {
    /// The wrapping key is in `wrapping`. Default: beside `path`.
    pub fn new(path: &Path, wrapping: Option<&Path>) -> Self {
        let wrapping = wrapping.map_or_else(|| path.with_file_name(WRAPPING_KEY), Path::to_owned);
        Self { path: path.to_owned(), wrapping }
    }

    /// The file of the data keys.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys, or makes the first (mode 0600).
    pub fn load_or_make(&self) -> io::Result<DataKeys> {
        match self.load() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let keys = DataKeys::first(make()?);
                self.save(&keys)?;
                Ok(keys)
            }
            done => done,
        }
    }

    /// Reads the keys.
    pub fn load(&self) -> io::Result<DataKeys> {
        let text = Zeroizing::new(read_bounded(&self.path, SMALL_FILE_BYTES_MAX)?);
        let Some(wrapped) = text.strip_prefix(FORM_WRAPPED.as_bytes()) else {
            return from_text(&text);
        };
        let wrapping = self.wrapping.display();
        // The kind must not be `NotFound`: the caller would create new keys.
        let key = wrapping::load(&self.wrapping).map_err(|error| {
            let why = format!("cannot read its wrapping key: {wrapping}: {error}");
            match error.kind() {
                io::ErrorKind::PermissionDenied => io::Error::new(io::ErrorKind::PermissionDenied, why),
                _ => io::Error::other(why),
            }
        })?;
        let plain = wrapping::unwrap(&key, wrapped).ok_or_else(|| {
            io::Error::other(format!("{wrapping} does not decrypt it: one of the two files belongs to another node"))
        })?;
        from_text(&plain)
    }

    /// Writes the keys, encrypted.
    pub fn save(&self, keys: &DataKeys) -> io::Result<()> {
        let key = wrapping::load_or_make(&self.wrapping).map_err(|error| {
            let wrapping = self.wrapping.display();
            io::Error::new(error.kind(), format!("its wrapping key, {wrapping}: {error}"))
        })?;
        let text = format!("{FORM_WRAPPED}{}\n", wrapping::wrap(&key, Zeroizing::new(to_text(keys)).as_bytes())?);
        write_atomic(&self.path, text.as_bytes(), Readers::Owner)
    }
}

/// Writes the keys in plain text, for a copy that other machines can read.
pub fn save_plain(path: &Path, keys: &DataKeys) -> io::Result<()> {
    write_atomic(path, Zeroizing::new(to_text(keys)).as_bytes(), Readers::Owner)
}

/// Reads a key from base64.
pub fn from_base64(text: &[u8]) -> Option<Key> {
    data_encoding::BASE64.decode(text.trim_ascii()).ok()?.try_into().ok()
}

fn from_text(text: &[u8]) -> io::Result<DataKeys> {
    if let Some(several) = text.strip_prefix(FORM_OF_SEVERAL.as_bytes()) {
        return several_from(several).ok_or_else(|| io::Error::other("a line is not a number and a key"));
    }
    let key = match text.strip_prefix(FORM.as_bytes()) {
        Some(key) => key,
        None if text.starts_with(b"catamaran-data-key ") => {
            let what = "its format is unknown: newer software wrote it";
            return Err(io::Error::other(what));
        }
        None => text,
    };
    from_base64(key).map(DataKeys::first).ok_or_else(|| {
        io::Error::other(format!(
            "it has no key: expected `{FORM}` and {DATA_KEY_BYTES} bytes in base64, or the base64 alone"
        ))
    })
}

fn several_from(text: &[u8]) -> Option<DataKeys> {
    let mut lines = text.trim_ascii_end().split(|&byte| byte == b'\n');
    let clients = from_base64(lines.next()?)?;
    let mut keys = BTreeMap::new();
    for line in lines {
        let (number, key) = str::from_utf8(line).ok()?.split_once(' ')?;
        keys.insert(number.parse().ok()?, from_base64(key.as_bytes())?);
    }
    (!keys.is_empty() && keys.len() <= DATA_KEYS_MAX).then_some(DataKeys { keys, clients })
}

fn to_text(keys: &DataKeys) -> String {
    let base64 = |key: &Key| data_encoding::BASE64.encode(key);
    match keys.keys.get(&1).filter(|_| keys.is_first()) {
        Some(first) => format!("{FORM}{}\n", base64(first)),
        None => {
            let lines: String = keys.keys.iter().map(|(number, key)| format!("{number} {}\n", base64(key))).collect();
            format!("{FORM_OF_SEVERAL}{}\n{lines}", base64(&keys.clients))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_made_once_and_stored_encrypted() {
        let dir = process::testing::test_dir("data-key");
        let file = DataKeyFile::new(&dir.path().join("data.key"), None);
        assert_eq!(file.load().unwrap_err().kind(), io::ErrorKind::NotFound);
        let keys = file.load_or_make().unwrap();
        assert_eq!(file.load_or_make().unwrap(), keys);
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.starts_with(FORM_WRAPPED) && text.ends_with('\n'), "the file starts with its format");
        let clear = data_encoding::BASE64.encode(&keys.keys[&1]);
        let inside = data_encoding::BASE64.decode(text[FORM_WRAPPED.len()..].trim_end().as_bytes()).unwrap();
        assert!(!text.contains(&clear) && !inside.windows(32).any(|window| window == keys.keys[&1]));
        let mode = |name| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("data.key"), mode(WRAPPING_KEY)], [0o600, 0o600]);
        file.save(&keys).unwrap();
        assert_ne!(std::fs::read_to_string(file.path()).unwrap(), text, "another nonce each time");
        for damaged in [&text[..text.len() / 2], &text.replace(" wrapped ", " wrapped A"), FORM_WRAPPED] {
            std::fs::write(file.path(), damaged).unwrap();
            let error = file.load_or_make().unwrap_err();
            assert!(error.to_string().contains("does not decrypt it"), "a damaged key is never replaced: {error}");
        }
        std::fs::write(file.path(), text.replace(" 3 wrapped ", " 4 wrapped ")).unwrap();
        assert!(file.load_or_make().unwrap_err().to_string().contains("newer software"));
    }

    #[test]
    fn a_wrapped_key_needs_its_own_wrapping_key() {
        let dir = process::testing::test_dir("data-key-wrapping");
        let (path, elsewhere) = (dir.path().join("data.key"), dir.path().join("run"));
        std::fs::create_dir(&elsewhere).unwrap();
        let file = DataKeyFile::new(&path, Some(&elsewhere.join("wrapping")));
        let keys = file.load_or_make().unwrap();
        assert!(!dir.path().join(WRAPPING_KEY).exists(), "it is in the given file");
        assert_eq!(file.load().unwrap(), keys);
        let beside = DataKeyFile::new(&path, None);
        let error = beside.load_or_make().unwrap_err();
        assert!(
            error.to_string().contains("cannot read its wrapping key") && error.kind() != io::ErrorKind::NotFound,
            "{error}"
        );
        wrapping::load_or_make(&dir.path().join(WRAPPING_KEY)).unwrap();
        let error = beside.load_or_make().unwrap_err();
        assert!(error.to_string().contains("does not decrypt it"), "{error}");
        std::fs::write(dir.path().join(WRAPPING_KEY), "catamaran-wrapping-key 1 AAAA\n").unwrap();
        assert!(beside.load().unwrap_err().to_string().contains("no key in"));
        let nowhere = DataKeyFile::new(&dir.path().join("other.key"), Some(&dir.path().join("none/wrapping")));
        let error = nowhere.load_or_make().unwrap_err();
        assert!(error.to_string().contains("its wrapping key"), "{error}");
        assert!(!nowhere.path().exists());
    }

    #[test]
    fn plain_keys_are_read_and_not_rewritten() {
        let dir = process::testing::test_dir("data-key-0");
        let file = DataKeyFile::new(&dir.path().join("data.key"), None);
        let key: [u8; DATA_KEY_BYTES] = std::array::from_fn(|index| index as u8);
        let bare = format!("{}\n", data_encoding::BASE64.encode(&key));
        for text in [bare.clone(), format!("{FORM}{bare}")] {
            std::fs::write(file.path(), &text).unwrap();
            assert_eq!(file.load_or_make().unwrap(), DataKeys::first(key));
            assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
        }
        for damaged in ["AAAA", "catamaran-data-key 1 plain AAAA", "", &bare[..9], &bare.repeat(2)] {
            std::fs::write(file.path(), damaged).unwrap();
            let error = file.load_or_make().unwrap_err();
            assert!(error.to_string().starts_with("it has no key"), "a damaged key is never replaced: {error}");
        }
    }

    #[test]
    fn several_keys_are_read_as_written_and_removed_keys_are_gone() {
        let dir = process::testing::test_dir("data-key-several");
        let file = DataKeyFile::new(&dir.path().join("data.key"), None);
        let first = file.load_or_make().unwrap();
        let mut keys = first.clone();
        keys.keys.insert(2, make().unwrap());
        file.save(&keys).unwrap();
        assert_eq!(file.load().unwrap(), keys);
        keys.keys.remove(&1);
        file.save(&keys).unwrap();
        assert_eq!(file.load().unwrap(), keys);
        save_plain(file.path(), &keys).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(&data_encoding::BASE64.encode(&first.keys[&1])));
        let read = file.load().unwrap();
        assert_eq!((&read, read.clients), (&keys, first.clients));
        for damaged in [&text[..text.len() - 9], &text.replace("\n2 ", "\nx "), &text.replace("\n2 ", "\n2")] {
            std::fs::write(file.path(), damaged).unwrap();
            assert!(file.load().is_err(), "{damaged}");
        }
        assert_ne!(digest(&keys.keys[&2]), digest(&first.keys[&1]));
    }
}
