//! Secrets sealed with the cluster's data key (ChaCha20-Poly1305, RFC 8439). Entries, checkpoints and backups contain
//! secrets only in this form.

use core::fmt;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::collections::BTreeMap;
use zeroize::Zeroizing;
use zone::codec::{DecodeError, Decoder, Encoder};

/// Bytes that sealing adds.
const TAG_BYTES: usize = 16;

/// A secret that only a member can read.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Number of the data key. The key is rotated when a node leaves.
    pub data_key_number: u32,
    /// The nonce, from the caller's random source.
    pub nonce: [u8; 12],
    /// Ciphertext and tag.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed(data key {}, {} bytes)", self.data_key_number, self.bytes.len())
    }
}

impl Sealed {
    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.u32(self.data_key_number);
        out.fixed(&self.nonce);
        out.bytes(&self.bytes);
    }

    /// Decodes the output of [`Sealed::encode`]; `plain_bytes_max` bounds the secret.
    pub(crate) fn decode(from: &mut Decoder<'_>, plain_bytes_max: usize) -> Result<Self, DecodeError> {
        Ok(Self {
            data_key_number: from.u32()?,
            nonce: from.array()?,
            bytes: from.bytes(plain_bytes_max + TAG_BYTES)?.to_vec(),
        })
    }
}

/// The keys that seal secrets, by number: the current one, and during a replacement the previous or the next.
#[derive(Clone)]
pub struct DataKey {
    keys: BTreeMap<u32, LessSafeKey>,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({:?})", self.keys.keys())
    }
}

impl DataKey {
    /// Creates a key from its bytes and its number in the order of rotations.
    ///
    /// # Panics
    /// Never: the algorithm takes keys of 32 bytes.
    #[must_use]
    pub fn new(number: u32, bytes: &[u8; 32]) -> Self {
        Self { keys: BTreeMap::new() }.with(number, bytes)
    }

    /// Adds another key.
    ///
    /// # Panics
    /// Never: the algorithm takes keys of 32 bytes.
    #[must_use]
    pub fn with(mut self, number: u32, bytes: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("32 bytes are a key of this algorithm");
        self.keys.insert(number, LessSafeKey::new(key));
        self
    }

    /// The highest number.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.keys.keys().next_back().copied().unwrap_or(0)
    }

    /// Seals `secret` with the newest key. `context` (the kind and the owner of the secret) must be the same when it
    /// is opened.
    ///
    /// # Panics
    /// Never: there is a newest key, and only messages of 256 GiB and more cannot be sealed.
    #[must_use]
    pub fn seal(&self, nonce: [u8; 12], context: &[u8], secret: &[u8]) -> Sealed {
        self.seal_under(self.newest(), nonce, context, secret).expect("the newest key is there")
    }

    /// Seals `secret` with the key of this number; `None` if that key is unknown.
    ///
    /// # Panics
    /// Never: only messages of 256 GiB and more cannot be sealed.
    #[must_use]
    pub fn seal_under(&self, number: u32, nonce: [u8; 12], context: &[u8], secret: &[u8]) -> Option<Sealed> {
        let mut bytes = secret.to_vec();
        if planted!(SecretsNotEncrypted) {
            bytes.extend([0; TAG_BYTES]);
            return Some(Sealed { data_key_number: number, nonce, bytes });
        }
        self.keys
            .get(&number)?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), &mut bytes)
            .expect("secrets are short");
        Some(Sealed { data_key_number: number, nonce, bytes })
    }

    /// Opens a sealed secret into memory that is overwritten when dropped. `None` with another key, for another
    /// context, or if the secret was altered.
    #[must_use]
    pub fn open(&self, sealed: &Sealed, context: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let key = self.keys.get(&sealed.data_key_number)?;
        // The allocation must never move: a copy would remain in memory.
        let mut bytes = Zeroizing::new(sealed.bytes.clone());
        if planted!(SecretsNotEncrypted) {
            bytes.truncate(sealed.bytes.len() - TAG_BYTES);
            return Some(bytes);
        }
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let length = key.open_in_place(nonce, Aad::from(context), &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_what_it_sealed() {
        let key = DataKey::new(1, &[7; 32]);
        let sealed = key.seal([9; 12], b"tsig a.", b"secret");
        assert!(!sealed.bytes.starts_with(b"secret"), "the stored secret is encrypted");
        assert_eq!(key.open(&sealed, b"tsig a.").unwrap().as_slice(), b"secret");
        assert_eq!(key.open(&sealed, b"tsig b."), None);
        assert_eq!(DataKey::new(1, &[8; 32]).open(&sealed, b"tsig a."), None);
        assert_eq!(DataKey::new(2, &[7; 32]).open(&sealed, b"tsig a."), None);
        let mut altered = sealed.clone();
        altered.bytes[0] ^= 1;
        assert_eq!(key.open(&altered, b"tsig a."), None);
        let both = DataKey::new(1, &[7; 32]).with(2, &[6; 32]);
        assert_eq!((both.newest(), both.open(&sealed, b"tsig a.").unwrap().as_slice()), (2, &b"secret"[..]));
        let anew = both.seal([9; 12], b"tsig a.", b"secret");
        assert_eq!((anew.data_key_number, key.open(&anew, b"tsig a.")), (2, None));
        assert_eq!(key.seal_under(2, [9; 12], b"", b"secret"), None);
        assert!(!format!("{sealed:?}").contains("secret"));
    }
}
