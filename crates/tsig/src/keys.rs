//! TSIG keys and the table of keys (RFC 8945 6).

use crate::algorithm::KeyAlgorithm;
use crate::limits::{KEY_SECRETS_MAX, KEYS_MAX, SECRET_BYTES_MAX, SECRET_ID_BYTES};
use crate::name_table::NameTable;
use crate::secret_hmac::SecretHmac;
use core::fmt;
use std::sync::Arc;
use wire::name::{Name, NameRef};

/// Why a key cannot be in a [`KeyTable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// No secret, or more than [`KEY_SECRETS_MAX`].
    SecretCount,
    /// A secret that is empty or longer than [`SECRET_BYTES_MAX`] bytes.
    SecretLength,
    /// A minimum length of MACs that the algorithm does not allow.
    MacLength,
    /// The table has [`KEYS_MAX`] keys already.
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

/// Identifies a secret of a key without revealing it. A node that verified a signature tells the leader which secret
/// made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecretId(pub [u8; SECRET_ID_BYTES]);

/// One secret of a key.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    pub(crate) hmac: SecretHmac,
    pub(crate) id: SecretId,
}

impl Secret {
    fn new(key: NameRef<'_>, algorithm: KeyAlgorithm, bytes: &[u8]) -> Self {
        let hmac = SecretHmac::new(algorithm, bytes);
        let mut context = hmac.context();
        // No signed message starts with these bytes: as a header they have an invalid OPCODE and flags.
        context.update(b"which secret of the key ");
        context.update(key.as_bytes());
        let mut id = [0; SECRET_ID_BYTES];
        id.copy_from_slice(&context.finish().as_bytes()[..SECRET_ID_BYTES]);
        Self { hmac, id: SecretId(id) }
    }
}

/// A TSIG key: a name, an algorithm, and one secret, or two during a rollover.
#[derive(Clone, Debug)]
pub struct TsigKey {
    pub(crate) name: Name,
    pub(crate) algorithm: KeyAlgorithm,
    /// The newest first; never empty.
    pub(crate) secrets: Vec<Secret>,
    /// Bytes of the shortest MAC that is accepted.
    pub(crate) mac_bytes_min: usize,
}

impl TsigKey {
    /// A key that accepts full MACs only.
    ///
    /// # Errors
    /// [`KeyError`] when there are too few or too many secrets, or a secret is empty or too long.
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
    /// [`KeyError::MacLength`] when RFC 8945 5.2.2.1 does not allow this length.
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

    /// Whether the key has this secret.
    #[must_use]
    pub fn has_secret(&self, id: SecretId) -> bool {
        self.secrets.iter().any(|secret| secret.id == id)
    }

    /// Its algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }
}

/// All keys by name. Copies share unchanged parts. The grants of a key are kept elsewhere.
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

    /// Inserts a key. It replaces a key of the same name.
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

    /// Removes a key.
    pub fn remove(&mut self, name: NameRef<'_>) {
        self.keys.remove(name);
    }

    /// The key of this name, in any case.
    #[must_use]
    pub fn get(&self, name: NameRef<'_>) -> Option<&TsigKey> {
        self.keys.get(name).map(|key| &**key)
    }

    /// Number of keys.
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
    fn each_secret_has_its_own_id() {
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
