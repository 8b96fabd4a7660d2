//! The key of this node that encrypts the cluster's data keys. Without it, `data.key` is useless.
//!
//! ```text
//!   catamaran-wrapping-key 1 KEY    32 bytes in base64
//! ```
//!
//! It is beside `data.key`, unless the configuration names another file, such as a credential of the service manager or
//! a file in memory (docs/internals/decisions/0010-data-key.md).

use super::data_key::{Key, from_base64, make};
use super::token::fill_random;
use super::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use data_encoding::BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

/// Prefix of the file.
const FORM: &str = "catamaran-wrapping-key 1 ";

/// Associated data, so that nothing else sealed with this key is accepted.
const CONTEXT: &[u8] = b"catamaran data.key";

/// Bytes of the nonce at the beginning (RFC 8439 2.8).
const NONCE_BYTES: usize = 12;

/// Reads the key.
pub(super) fn load(path: &Path) -> io::Result<Zeroizing<Key>> {
    let text = Zeroizing::new(read_bounded(path, SMALL_FILE_BYTES_MAX)?);
    let wrong = || io::Error::other(format!("no key in {}: expected `{FORM}` and 32 bytes in base64", path.display()));
    text.strip_prefix(FORM.as_bytes()).and_then(from_base64).map(Zeroizing::new).ok_or_else(wrong)
}

/// Reads the key, or makes it (mode 0600). If several nodes share a directory, only one makes it.
pub(super) fn load_or_make(path: &Path) -> io::Result<Zeroizing<Key>> {
    match load(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => return done,
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".made-{}", std::process::id()));
    let made = path.with_file_name(name);
    let text = Zeroizing::new(format!("{FORM}{}\n", BASE64.encode(&*Zeroizing::new(make()?))));
    write_atomic(&made, text.as_bytes(), Readers::Owner)?;
    let linked = std::fs::hard_link(&made, path);
    std::fs::remove_file(&made)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => load(path),
    }
}

/// `plain` in base64, sealed under the key.
pub(super) fn wrap(key: &Key, plain: &[u8]) -> io::Result<String> {
    let mut nonce = [0; NONCE_BYTES];
    fill_random(&mut nonce)?;
    let mut sealed = plain.to_vec();
    let unique = Nonce::assume_unique_for_key(nonce);
    let done = cipher(key).seal_in_place_append_tag(unique, Aad::from(CONTEXT), &mut sealed);
    done.map_err(|_| io::Error::other("the keys cannot be encrypted"))?;
    Ok(BASE64.encode(&[&nonce[..], &sealed].concat()))
}

/// Decrypts the output of [`wrap`]. `None` with another key, or if it was altered.
pub(super) fn unwrap(key: &Key, wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = BASE64.decode(wrapped.trim_ascii()).ok()?;
    let (nonce, bytes) = bytes.split_first_chunk::<NONCE_BYTES>()?;
    // The allocation must never move: a copy would remain in memory.
    let mut plain = Zeroizing::new(bytes.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = cipher(key).open_in_place(nonce, Aad::from(CONTEXT), &mut plain).ok()?.len();
    plain.truncate(length);
    Some(plain)
}

fn cipher(key: &Key) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("32 bytes are a key of this algorithm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_does_not_change() {
        // By another implementation of ChaCha20-Poly1305, with the nonce 1, 1, ...
        let wrapped = b"AQEBAQEBAQEBAQEBDy/iZfWR+8MEIjpUXknRMjWnY3fD6A==";
        assert_eq!(unwrap(&[7; 32], wrapped).unwrap().as_slice(), b"secret");
        assert_eq!(unwrap(&[8; 32], wrapped), None);
    }
}
