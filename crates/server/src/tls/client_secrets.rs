//! The secrets of cookies, TLS tickets and QUIC address tokens: one for each data key of this node.
//!
//! ```text
//!   secret of a data key = HMAC-SHA256(data key, label)
//!
//!   made with      the data key in use: all members had it before it was used
//!   accepted from  all data keys of the node: the next one, and the previous one until nothing is sealed with it
//! ```
//! So `cluster rotate --data-key` and the removal of a node replace the secrets in a running cluster. Seconds later,
//! cookies, tickets and tokens of the old key are refused, and a removed node cannot make valid ones.

use config::files::data_key::{Key, client_secret};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The secrets of a node, shared by its threads. Each thread has a copy and checks a version number.
pub(crate) struct ClientSecrets {
    version: AtomicU64,
    secrets: Mutex<Arc<[Key]>>,
}

impl fmt::Debug for ClientSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecrets(..)")
    }
}

impl ClientSecrets {
    /// The secrets of a starting node. It does not know yet which key is in use, but all members accept the first one.
    pub(crate) fn new(keys: &BTreeMap<u32, Key>) -> Arc<Self> {
        let in_use = keys.keys().next().copied().unwrap_or(0);
        Arc::new(Self { version: AtomicU64::new(0), secrets: Mutex::new(secrets_of(keys, in_use)) })
    }

    #[cfg(test)]
    pub(crate) fn of_key(key: &Key) -> Arc<Self> {
        Self::new(&BTreeMap::from([(1, *key)]))
    }

    /// Sets the data keys of the node, and the one in use.
    pub(crate) fn set(&self, keys: &BTreeMap<u32, Key>, in_use: u32) {
        let new = secrets_of(keys, in_use);
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if !new.is_empty() && *secrets != new {
            *secrets = new;
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// A number that changes whenever the secrets change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// All accepted secrets; the first one makes new values.
    pub(crate) fn get(&self) -> Arc<[Key]> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The secret that makes new values.
    pub(crate) fn first(&self) -> Key {
        self.get().first().copied().unwrap_or_default()
    }
}

/// The secrets of all keys. The secret of the key in use comes first, or of the newest key if that one is missing.
fn secrets_of(keys: &BTreeMap<u32, Key>, in_use: u32) -> Arc<[Key]> {
    let maker = keys.get_key_value(&in_use).or_else(|| keys.last_key_value());
    let others = keys.iter().rev().filter(|(number, _)| maker.is_none_or(|(first, _)| first != *number));
    maker.into_iter().chain(others).map(|(_, key)| client_secret(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(numbers: &[u32]) -> BTreeMap<u32, Key> {
        numbers.iter().map(|number| (*number, [*number as u8; 32])).collect()
    }

    fn numbers_of(secrets: &ClientSecrets) -> Vec<u8> {
        let known: Vec<(u8, Key)> = (1..9).map(|number| (number, client_secret(&[number; 32]))).collect();
        let number = |secret: &Key| known.iter().find(|(_, other)| other == secret).unwrap().0;
        secrets.get().iter().map(number).collect()
    }

    #[test]
    fn the_key_in_use_comes_first_and_all_keys_are_accepted() {
        let secrets = ClientSecrets::new(&keys(&[1]));
        assert_eq!((numbers_of(&secrets), secrets.version()), (vec![1], 0));
        for (numbers, in_use, expected, version) in [
            (&[1, 2][..], 1, &[1, 2][..], 1),
            (&[1, 2], 1, &[1, 2], 1),
            (&[1, 2], 2, &[2, 1], 2),
            (&[2], 2, &[2], 3),
            // The state of the node is behind its file.
            (&[2, 3], 1, &[3, 2], 4),
            // Setting the same keys changes nothing.
            (&[], 1, &[3, 2], 4),
        ] {
            secrets.set(&keys(numbers), in_use);
            assert_eq!((numbers_of(&secrets), secrets.version()), (expected.to_vec(), version));
        }
        assert_eq!(numbers_of(&ClientSecrets::new(&keys(&[4, 5]))), [4, 5], "at the start the older one is safe");
        assert_eq!(format!("{secrets:?}"), "ClientSecrets(..)");
    }
}
