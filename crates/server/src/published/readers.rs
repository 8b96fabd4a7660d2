//! Readers of the zones on other threads. When a checkpoint of the leader replaces all zones, they get new readers.
//! That is rare, so a worker checks only one number that hardly ever changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zone::set::{SetVersion, ZoneReader};

/// All readers of a node.
#[derive(Default)]
pub(crate) struct Readers {
    generation: AtomicU64,
    /// One slot per reader, filled when the reader must be renewed.
    slots: Mutex<Vec<Arc<Mutex<Option<ZoneReader>>>>>,
}

/// One thread's reader.
pub(crate) struct Zones {
    readers: Arc<Readers>,
    reader: ZoneReader,
    generation: u64,
    slot: Arc<Mutex<Option<ZoneReader>>>,
}

impl Readers {
    /// Adds a reader.
    pub(crate) fn add(self: &Arc<Self>, reader: ZoneReader) -> Zones {
        let slot = Arc::default();
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&slot));
        let generation = self.generation.load(Ordering::Acquire);
        Zones { readers: self.clone(), reader, generation, slot }
    }

    /// Renews all readers.
    pub(crate) fn renew(&self, make: impl Fn() -> ZoneReader) {
        for slot in &*self.slots.lock().unwrap_or_else(PoisonError::into_inner) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(make());
        }
        // Readers check this number first, so their slots must be filled before.
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Zones {
    /// The newest published version; see [`ZoneReader::pin`].
    pub(crate) fn pin(&mut self) -> SetVersion<'_> {
        let generation = self.readers.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            if let Some(reader) = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                self.reader = reader;
            }
        }
        self.reader.pin()
    }

    /// See [`ZoneReader::offline`].
    pub(crate) fn offline(&mut self) {
        self.reader.offline();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zone::record::{Record, ZoneId};
    use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};

    fn zones(apexes: &[&str]) -> ZoneSet {
        let mut set =
            ZoneSet::new(ZoneSetConfig { store: StoreConfig { huge_pages: false, ..StoreConfig::default() } }).unwrap();
        let mut edit = set.edit();
        for apex in apexes {
            let apex: wire::Name = apex.parse().unwrap();
            let id = ZoneId { view: 0, apex: apex.clone() };
            let rdata = [&[0, 0][..], &[0; 20]].concat().into();
            edit.create_zone(&id).unwrap();
            edit.add_records(&id, &[Record { owner: apex, rtype: wire::Rtype::SOA, ttl: 1, rdata }]).unwrap();
            edit.commit_stage(&id).unwrap();
        }
        let version = edit.seal();
        set.publish(version);
        set
    }

    #[test]
    fn a_reader_follows_when_all_zones_are_replaced() {
        let (old, new) = (zones(&["a."]), zones(&["b.", "c."]));
        let readers = Arc::<Readers>::default();
        let mut first = readers.add(old.reader());
        let mut second = readers.add(old.reader());
        assert_eq!(first.pin().zone_count(), 1);
        readers.renew(|| new.reader());
        drop(old);
        assert_eq!(first.pin().zone_count(), 2);
        assert_eq!(second.pin().zone_count(), 2);
        first.offline();
        assert_eq!(first.pin().zone_count(), 2);
    }
}
