//! A TSIG key as stored in the cluster.

use crate::secrets::{DataKey, Sealed};
use tsig::{KeyAlgorithm, TsigKey};
use wire::name::Name;
use zeroize::Zeroizing;

/// A TSIG key as stored in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) algorithm: KeyAlgorithm,
    pub(crate) secret: Sealed,
    /// The previous secret, during a rollover.
    pub(crate) previous: Option<Sealed>,
    /// Index of the entry that created it. It distinguishes two keys of one name.
    pub(crate) generation: u64,
}

impl KeyEntry {
    /// Its decrypted secrets, the newest first; `None` if no data key here opens them.
    pub(crate) fn secrets(&self, name: &Name, data_key: &DataKey) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let sealed = [Some(&self.secret), self.previous.as_ref()].into_iter().flatten();
        sealed.map(|secret| data_key.open(secret, &secret_context(name))).collect()
    }

    /// The key for verification of signatures.
    pub(crate) fn open(&self, name: &Name, data_key: &DataKey) -> Option<TsigKey> {
        let secrets = self.secrets(name, data_key)?;
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_slice()).collect();
        TsigKey::new(name.as_ref(), self.algorithm, &secrets).ok()
    }
}

/// Binds a sealed secret to its key, so that the secrets of two keys cannot be exchanged.
pub(crate) fn secret_context(name: &Name) -> Vec<u8> {
    [b"tsig ".as_slice(), name.as_bytes()].concat()
}
