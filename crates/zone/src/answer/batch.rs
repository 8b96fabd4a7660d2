//! Many queries side by side: what their answers will read is brought into the cache first, so that one does not wait
//! for memory after the other.

use crate::key;
use crate::set::SetVersion;
use crate::vertex::LeafNames;
use store::limits::BATCH_MAX;
use store::{Key, Path, Tree, View};
use wire::NameRef;

/// What a worker keeps from one batch to the next, so that nothing is allocated. It holds no zone data.
pub struct Batch {
    lookups: Vec<(Tree, Key)>,
}

impl Batch {
    /// With room for the batches to come.
    #[must_use]
    pub fn new() -> Self {
        Self { lookups: vec![(Tree::EMPTY, Key::new()); BATCH_MAX] }
    }

    /// Has the names of queries looked up; call [`super::answer`] for each afterwards. Worth it for two queries and
    /// more; those beyond the first 64 are left to themselves.
    pub fn warm<'q>(&mut self, set: SetVersion<'_>, qnames: impl Iterator<Item = NameRef<'q>>) {
        let zones = set.zones_tree();
        let mut count = 0;
        for ((tree, key), qname) in self.lookups.iter_mut().zip(qnames) {
            *tree = zones;
            key::write(qname, key);
            count += 1;
        }
        let lookups = &mut self.lookups[..count];
        let store: View<'_, LeafNames> = set.store();
        store.warm(lookups);
        let mut path = Path::new();
        for (tree, key) in lookups.iter_mut() {
            // The type decides only for DS at an apex; there it costs a lookup that is not ahead of its time.
            let zone = set.find_key(key, wire::number::Rtype::ANY, &mut path);
            *tree = zone.map_or(Tree::EMPTY, |zone| zone.names());
        }
        store.warm(lookups);
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}
