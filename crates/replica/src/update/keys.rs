//! The TSIG keys that a replica knows (RFC 8945 6).

use super::limits::{KEY_SECRETS_MAX, KEYS_MAX, MAC_BYTES_MIN, SECRET_BYTES_MAX, SECRET_ID_BYTES};
use super::name_table::NameTable;
use super::secret_hmac::SecretHmac;
use crate::io::KeyAlgorithm;
use core::fmt;
use std::sync::Arc;
use wire::name::{Name, NameRef};

impl KeyAlgorithm {
    /// Algorithms for new keys.
    pub const STRONG: [Self; 3] = [Self::HmacSha256, Self::HmacSha384, Self::HmacSha512];
    /// Algorithms only for keys shared with other servers. RFC 8945 6: SHA-1 is "NOT RECOMMENDED", MD5 "MUST NOT be
    /// used", and SHA-224 is optional.
    pub const WEAK: [Self; 3] = [Self::HmacSha1, Self::HmacSha224, Self::HmacMd5];

    /// Whether a key of this algorithm is accepted only if the administrator names the algorithm.
    #[must_use]
    pub const fn is_weak(self) -> bool {
        matches!(self, Self::HmacSha1 | Self::HmacSha224 | Self::HmacMd5)
    }

    /// The name in key files and, but for HMAC-MD5, as a domain name in TSIG (RFC 8945 6).
    #[must_use]
    pub const fn mnemonic(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha224 => "hmac-sha224",
            Self::HmacMd5 => "hmac-md5",
        }
    }

    /// The algorithm that a key file names, in any case, with or without a dot at the end.
    #[must_use]
    pub fn from_mnemonic(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        // RFC 8945 6: the TSIG name of HMAC-MD5, which key files of other servers may contain.
        if text.eq_ignore_ascii_case("hmac-md5.sig-alg.reg.int") {
            return Some(Self::HmacMd5);
        }
        let mut all = Self::STRONG.into_iter().chain(Self::WEAK);
        all.find(|algorithm| algorithm.mnemonic().eq_ignore_ascii_case(text))
    }

    /// The algorithm's name in wire form (RFC 8945 6).
    #[must_use]
    pub const fn name_bytes(self) -> &'static [u8] {
        match self {
            Self::HmacSha256 => b"\x0bhmac-sha256\0",
            Self::HmacSha384 => b"\x0bhmac-sha384\0",
            Self::HmacSha512 => b"\x0bhmac-sha512\0",
            Self::HmacSha1 => b"\x09hmac-sha1\0",
            Self::HmacSha224 => b"\x0bhmac-sha224\0",
            Self::HmacMd5 => b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0",
        }
    }

    /// Bytes of a MAC that is not truncated.
    #[must_use]
    pub const fn mac_bytes(self) -> usize {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacSha384 => 48,
            Self::HmacSha512 => 64,
            Self::HmacSha1 => 20,
            Self::HmacSha224 => 28,
            Self::HmacMd5 => 16,
        }
    }

    /// Bytes of the shortest MAC that the protocol knows: "the larger of 10 (octets) and half the length of the hash
    /// function in use" (RFC 8945 5.2.2.1).
    #[must_use]
    pub const fn mac_bytes_min(self) -> usize {
        let half = self.mac_bytes() / 2;
        if half > MAC_BYTES_MIN { half } else { MAC_BYTES_MIN }
    }
}

/// Why a key cannot be in a [`KeyTable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// No secret, or more than [`KEY_SECRETS_MAX`].
    SecretCount,
    /// An empty secret, or one of more than [`SECRET_BYTES_MAX`] bytes.
    SecretLength,
    /// A shortest MAC that the algorithm does not allow.
    MacLength,
    /// [`KEYS_MAX`] keys are there.
    TableFull,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretCount => write!(f, "a key has 1 to {KEY_SECRETS_MAX} secrets"),
            Self::SecretLength => write!(f, "a secret has 1 to {SECRET_BYTES_MAX} bytes"),
            Self::MacLength => f.write_str("the algorithm does not allow MACs this short (RFC 8945 5.2.2.1)"),
            Self::TableFull => write!(f, "there are {KEYS_MAX} keys already"),
        }
    }
}

impl core::error::Error for KeyError {}

/// Tells one secret of a key from another without saying anything of it: a node that verified a signature names to the
/// leader the secret that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecretId(pub [u8; SECRET_ID_BYTES]);

/// One secret of a key.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    pub(super) hmac: SecretHmac,
    pub(super) id: SecretId,
}

impl Secret {
    fn new(key: NameRef<'_>, algorithm: KeyAlgorithm, bytes: &[u8]) -> Self {
        let hmac = SecretHmac::new(algorithm, bytes);
        let mut context = hmac.context();
        // No message that is signed begins so: its header would have an OPCODE and flags that are none.
        context.update(b"which secret of the key ");
        context.update(key.as_bytes());
        let mut id = [0; SECRET_ID_BYTES];
        id.copy_from_slice(&context.finish().as_bytes()[..SECRET_ID_BYTES]);
        Self { hmac, id: SecretId(id) }
    }
}

/// A TSIG key: a name, an algorithm that is fixed for it, and one secret, or two while it is rolled over.
#[derive(Clone, Debug)]
pub struct TsigKey {
    pub(super) name: Name,
    pub(super) algorithm: KeyAlgorithm,
    /// The newest first; never empty.
    pub(super) secrets: Vec<Secret>,
    /// Bytes of the shortest MAC that is accepted.
    pub(super) mac_bytes_min: usize,
}

impl TsigKey {
    /// A key that accepts whole MACs only.
    ///
    /// # Errors
    /// [`KeyError`] when there are too few or too many secrets, or one has no fit length.
    pub fn new(name: NameRef<'_>, algorithm: KeyAlgorithm, secrets: &[&[u8]]) -> Result<Self, KeyError> {
        if !(1..=KEY_SECRETS_MAX).contains(&secrets.len()) {
            return Err(KeyError::SecretCount);
        }
        if secrets.iter().any(|secret| secret.is_empty() || secret.len() > SECRET_BYTES_MAX) {
            return Err(KeyError::SecretLength);
        }
        let name = name.to_canonical();
        Ok(Self {
            secrets: secrets.iter().map(|bytes| Secret::new(name.as_ref(), algorithm, bytes)).collect(),
            name,
            algorithm,
            mac_bytes_min: algorithm.mac_bytes(),
        })
    }

    /// Lets clients truncate their MACs down to `bytes` (RFC 8945 5.2.4 "local policy").
    ///
    /// # Errors
    /// [`KeyError::MacLength`] outside of what RFC 8945 5.2.2.1 allows.
    pub fn accept_mac_bytes(mut self, bytes: usize) -> Result<Self, KeyError> {
        if !(self.algorithm.mac_bytes_min()..=self.algorithm.mac_bytes()).contains(&bytes) {
            return Err(KeyError::MacLength);
        }
        self.mac_bytes_min = bytes;
        Ok(self)
    }

    /// Its name, in lower case.
    #[must_use]
    pub const fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// Whether this is one of its secrets.
    #[must_use]
    pub(crate) fn has_secret(&self, id: SecretId) -> bool {
        self.secrets.iter().any(|secret| secret.id == id)
    }

    /// Its algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }
}

/// All keys by name; copies share what they have in common. A key's rights are not its business: who asks for something
/// with a key looks up its grants.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    keys: NameTable<Arc<TsigKey>>,
}

impl KeyTable {
    /// A table without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a key in; one of the same name is replaced.
    ///
    /// # Errors
    /// [`KeyError::TableFull`].
    pub fn insert(&mut self, key: TsigKey) -> Result<(), KeyError> {
        if self.keys.len() >= KEYS_MAX && self.get(key.name()).is_none() {
            return Err(KeyError::TableFull);
        }
        self.keys.insert(key.name.clone().as_ref(), Arc::new(key));
        Ok(())
    }

    /// Takes a key out.
    pub fn remove(&mut self, name: NameRef<'_>) {
        self.keys.remove(name);
    }

    /// The key of this name, in any case.
    #[must_use]
    pub fn get(&self, name: NameRef<'_>) -> Option<&TsigKey> {
        self.keys.get(name).map(|key| &**key)
    }

    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn a_key_has_one_or_two_secrets_and_a_policy_within_the_algorithm() {
        let of = |secrets: &[&[u8]]| TsigKey::new(name("k").as_ref(), KeyAlgorithm::HmacSha384, secrets);
        assert_eq!(of(&[]).err(), Some(KeyError::SecretCount));
        assert_eq!(of(&[b"a", b"b", b"c"]).err(), Some(KeyError::SecretCount));
        assert_eq!(of(&[b""]).err(), Some(KeyError::SecretLength));
        assert_eq!(of(&[&[0; SECRET_BYTES_MAX + 1]]).err(), Some(KeyError::SecretLength));
        let key = of(&[b"new", b"old"]).unwrap();
        for (bytes, fits) in [(23, false), (24, true), (48, true), (49, false)] {
            assert_eq!(key.clone().accept_mac_bytes(bytes).is_ok(), fits, "{bytes}");
        }
    }

    #[test]
    fn a_secret_is_told_from_every_other() {
        let key =
            |key: &str, algorithm, secrets: &[&[u8]]| TsigKey::new(name(key).as_ref(), algorithm, secrets).unwrap();
        let rolling = key("k", KeyAlgorithm::HmacSha256, &[b"new", b"old"]);
        let id_of = |key: &TsigKey| key.secrets[0].id;
        for (other, is_there) in [
            (key("K", KeyAlgorithm::HmacSha256, &[b"new"]), true),
            (key("k", KeyAlgorithm::HmacSha256, &[b"old"]), true),
            (key("k", KeyAlgorithm::HmacSha256, &[b"ne"]), false),
            (key("l", KeyAlgorithm::HmacSha256, &[b"new"]), false),
            (key("k", KeyAlgorithm::HmacSha512, &[b"new"]), false),
        ] {
            assert_eq!(rolling.has_secret(id_of(&other)), is_there, "{other:?}");
        }
    }

    #[test]
    fn names_of_keys_ignore_case() {
        let mut table = KeyTable::new();
        table.insert(TsigKey::new(name("Key.Test").as_ref(), KeyAlgorithm::HmacSha256, &[b"s"]).unwrap()).unwrap();
        assert!(table.get(name("kEY.tEST").as_ref()).is_some());
        assert!(table.get(name("test").as_ref()).is_none());
        assert_eq!(table.len(), 1);
    }
}
