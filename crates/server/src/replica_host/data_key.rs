//! The data keys of a node, as the replica needs them.

use config::files::data_key::DataKeys;
use replica::DataKey;

/// The keys of a file. `None` if it has no key.
pub(crate) fn to_replica(keys: &DataKeys) -> Option<DataKey> {
    let mut keys = keys.keys.iter();
    let (number, key) = keys.next()?;
    Some(keys.fold(DataKey::new(*number, key), |all, (number, key)| all.with(*number, key)))
}

// A file has room for all keys of the cluster.
const _: () = assert!(config::limits::DATA_KEYS_MAX == replica::limits::DATA_KEYS_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use config::files::data_key::make;

    #[test]
    fn each_key_opens_only_what_it_sealed() {
        let first = DataKeys::first(make().unwrap());
        let mut keys = first.clone();
        keys.keys.insert(2, make().unwrap());
        keys.keys.remove(&1);
        let sealed = DataKey::new(2, &keys.keys[&2]).seal([1; 12], b"c", b"secret");
        assert_eq!(to_replica(&keys).unwrap().open(&sealed, b"c").unwrap().as_slice(), b"secret");
        assert_eq!(to_replica(&first).unwrap().open(&sealed, b"c"), None);
    }
}
