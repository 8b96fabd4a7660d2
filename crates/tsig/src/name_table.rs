//! A map by domain name with cheap copies. A copy clones 256 reference counts; a change of a copy clones one shard.

use std::collections::BTreeMap;
use std::sync::Arc;
use wire::limits::NAME_BYTES_MAX;
use wire::name::NameRef;

/// Number of shards.
const SHARDS: usize = 256;

type Shard<V> = Arc<BTreeMap<Box<[u8]>, V>>;

/// A map from names to values. Names are compared without case.
#[derive(Clone, Debug)]
pub struct NameTable<V> {
    /// The keys are names in lower case. A checksum of the name selects the shard.
    shards: Vec<Shard<V>>,
    len: usize,
}

impl<V> Default for NameTable<V> {
    fn default() -> Self {
        let empty = Shard::default();
        Self { shards: vec![empty; SHARDS], len: 0 }
    }
}

impl<V: Clone> NameTable<V> {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: NameRef<'_>) -> Option<&V> {
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = &mut lower[..name.as_bytes().len()];
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        self.shards[shard_of(lower)].get(&*lower)
    }

    /// Inserts a value. It replaces a value of the same name.
    pub fn insert(&mut self, name: NameRef<'_>, value: V) {
        let lower = name.as_bytes().to_ascii_lowercase();
        let before = Arc::make_mut(&mut self.shards[shard_of(&lower)]).insert(lower.into(), value);
        self.len += usize::from(before.is_none());
    }

    /// Removes a value.
    pub fn remove(&mut self, name: NameRef<'_>) {
        if self.get(name).is_some() {
            let lower = name.as_bytes().to_ascii_lowercase();
            Arc::make_mut(&mut self.shards[shard_of(&lower)]).remove(&*lower);
            self.len -= 1;
        }
    }

    /// All values, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn shard_of(lower: &[u8]) -> usize {
    crc32c::crc32c(lower) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::name::Name;

    #[test]
    fn copies_do_not_see_later_changes() {
        let name = |number: usize| -> Name { format!("K{number}.").parse().unwrap() };
        let mut table = NameTable::default();
        (0..2_000).for_each(|number| table.insert(name(number).as_ref(), number));
        let copy = table.clone();
        for number in (0..2_000).step_by(2) {
            table.remove(name(number).as_ref());
            table.insert(name(number + 1).as_ref(), 0);
        }
        assert_eq!((table.len(), copy.len()), (1_000, 2_000));
        assert_eq!((table.values().count(), table.values().sum::<usize>()), (1_000, 0));
        assert!((0..2_000).all(|number| copy.get(name(number).as_ref()) == Some(&number)));
        assert_eq!(table.get("k1.".parse::<Name>().unwrap().as_ref()), Some(&0), "whatever the case");
        table.remove(name(0).as_ref());
        assert_eq!(table.len(), 1_000, "it was gone before");
    }
}
