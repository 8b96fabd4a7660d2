//! Recent changes of each zone, bounded, for IXFR (RFC 1995). They are the same on every replica.

use super::hash::{Item, item_hash};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::number::Serial;
use zone::codec::{DecodeError, Decoder, Encoder};
use zone::{Changeset, ZoneId};

/// One change of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    /// Index of the entry that made it.
    index: u64,
    serial_from: Serial,
    /// The encoded changeset.
    bytes: Arc<[u8]>,
}

type ZoneHistory = Arc<VecDeque<Difference>>;

/// Limits of a [`History`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryLimits {
    pub(crate) zone_count_max: usize,
    pub(crate) zone_bytes_max: usize,
    pub(crate) total_bytes_max: usize,
}

/// The changes of all zones.
#[derive(Debug)]
pub(crate) struct History {
    zones: BTreeMap<ZoneId, ZoneHistory>,
    zone_bytes: BTreeMap<ZoneId, usize>,
    /// Zone by index of its change, to drop the oldest change of all zones first. Removed zones may have left
    /// entries.
    order: BTreeMap<u64, ZoneId>,
    total_bytes: usize,
    limits: HistoryLimits,
    hash: u128,
}

/// A frozen copy.
#[derive(Clone, Debug)]
pub(crate) struct FrozenHistory {
    zones: BTreeMap<ZoneId, ZoneHistory>,
}

impl History {
    pub(crate) const fn new(limits: HistoryLimits) -> Self {
        Self {
            zones: BTreeMap::new(),
            zone_bytes: BTreeMap::new(),
            order: BTreeMap::new(),
            total_bytes: 0,
            limits,
            hash: 0,
        }
    }

    pub(crate) const fn limits(&self) -> HistoryLimits {
        self.limits
    }

    pub(crate) const fn hash(&self) -> u128 {
        self.hash
    }

    /// Adds a change. `index` increases from call to call.
    pub(crate) fn push(&mut self, index: u64, zone: &ZoneId, changeset: &Changeset) {
        let Some(serial_from) = changeset.serial_from else { return };
        let mut out = Encoder::new();
        out.changeset(changeset);
        let bytes: Arc<[u8]> = out.finish().into();
        self.put(zone, Difference { index, serial_from, bytes });
        let zone_is_full = |history: &Self| {
            history.zones.get(zone).is_some_and(|past| past.len() > history.limits.zone_count_max)
                || history.zone_bytes.get(zone).is_some_and(|&bytes| bytes > history.limits.zone_bytes_max)
        };
        while zone_is_full(self) && !planted!(HistoryUnlimited) {
            self.drop_oldest_of(&zone.clone());
        }
        while self.total_bytes > self.limits.total_bytes_max {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            let oldest = oldest.clone();
            self.drop_oldest_of(&oldest);
        }
    }

    /// Drops the changes of a zone, because an IXFR cannot cross a gap.
    pub(crate) fn clear(&mut self, zone: &ZoneId) {
        while self.zones.contains_key(zone) {
            self.drop_oldest_of(zone);
        }
    }

    /// The changes from `serial` to the present, oldest first; `None` if the history does not reach back to it.
    pub(crate) fn since(&self, zone: &ZoneId, serial: Serial) -> Option<Vec<Changeset>> {
        let past = self.zones.get(zone)?;
        let start = past.iter().position(|difference| difference.serial_from == serial)?;
        past.iter().skip(start).map(|difference| Decoder::new(&difference.bytes).changeset().ok()).collect()
    }

    fn put(&mut self, zone: &ZoneId, difference: Difference) {
        self.hash = self.hash.wrapping_add(difference_hash(zone, &difference));
        self.total_bytes += difference.bytes.len();
        *self.zone_bytes.entry(zone.clone()).or_default() += difference.bytes.len();
        self.order.insert(difference.index, zone.clone());
        Arc::make_mut(self.zones.entry(zone.clone()).or_default()).push_back(difference);
    }

    fn drop_oldest_of(&mut self, zone: &ZoneId) {
        let Some(past) = self.zones.get_mut(zone) else { return };
        let oldest = Arc::make_mut(past).pop_front();
        if past.is_empty() {
            self.zones.remove(zone);
        }
        if let Some(difference) = oldest {
            self.hash = self.hash.wrapping_sub(difference_hash(zone, &difference));
            self.total_bytes -= difference.bytes.len();
            self.order.remove(&difference.index);
            if let Some(bytes) = self.zone_bytes.get_mut(zone) {
                *bytes -= difference.bytes.len();
            }
        }
        if !self.zones.contains_key(zone) {
            self.zone_bytes.remove(zone);
        }
    }

    pub(crate) fn freeze(&self) -> FrozenHistory {
        FrozenHistory { zones: self.zones.clone() }
    }

    /// Restores one item of a checkpoint.
    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let zone = from.zone_id()?;
        let index = from.u64()?;
        let bytes = from.rest();
        let changeset = from.changeset()?;
        let serial_from = changeset.serial_from.ok_or(DecodeError::Unknown)?;
        let used = bytes.len() - from.rest().len();
        self.put(&zone, Difference { index, serial_from, bytes: bytes[..used].into() });
        Ok(())
    }
}

impl FrozenHistory {
    /// Zones with recent changes, in order.
    pub(crate) fn zones(&self) -> Vec<ZoneId> {
        self.zones.keys().cloned().collect()
    }

    /// Writes the changes of one zone as items.
    pub(crate) fn encode_zone(&self, zone: &ZoneId, mut item: impl FnMut(Encoder)) {
        for difference in self.zones.get(zone).into_iter().flat_map(|past| past.iter()) {
            let mut out = Encoder::new();
            out.zone_id(zone);
            out.u64(difference.index);
            out.fixed(&difference.bytes);
            item(out);
        }
    }
}

fn difference_hash(zone: &ZoneId, difference: &Difference) -> u128 {
    item_hash(
        Item::History,
        &[&zone.view.to_be_bytes(), zone.apex.as_bytes(), &difference.index.to_be_bytes(), &difference.bytes],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HistoryLimits = HistoryLimits { zone_count_max: 3, zone_bytes_max: 1_000, total_bytes_max: 100 };

    fn zone(apex: &str) -> ZoneId {
        ZoneId { view: 0, apex: apex.parse().unwrap() }
    }

    fn step(serial: u32) -> Changeset {
        Changeset {
            serial_from: Some(Serial(serial)),
            serial_to: Serial(serial + 1),
            deleted: Vec::new(),
            added: Vec::new(),
        }
    }

    #[test]
    fn history_keeps_as_much_as_its_limits_allow() {
        let mut history = History::new(LIMITS);
        for serial in 1..=5 {
            history.push(u64::from(serial), &zone("a."), &step(serial));
        }
        let serials = |from| {
            let past = history.since(&zone("a."), Serial(from))?;
            Some(past.iter().map(|changeset| changeset.serial_to.0).collect::<Vec<_>>())
        };
        assert_eq!(serials(2), None);
        assert_eq!(serials(3), Some(vec![4, 5, 6]));
        assert_eq!(serials(5), Some(vec![6]));
        assert_eq!(serials(6), None);
    }

    #[test]
    fn history_evicts_the_oldest_difference_of_all_zones() {
        let mut history = History::new(LIMITS);
        for index in 0..10u32 {
            history.push(u64::from(index), &zone(&format!("z{index}.")), &step(index));
        }
        // A change without records has 17 bytes: five of them fit.
        assert_eq!(history.zones.len(), 5);
        assert!(history.since(&zone("z4."), Serial(4)).is_none());
        assert!(history.since(&zone("z5."), Serial(5)).is_some());
        let frozen = history.freeze();
        let mut copy = History::new(LIMITS);
        for zone in frozen.zones() {
            frozen.encode_zone(&zone, |item| {
                let bytes = item.finish();
                let mut from = Decoder::new(&bytes);
                copy.restore(&mut from).unwrap();
                from.finish().unwrap();
            });
        }
        assert_eq!(copy.hash(), history.hash());
        for zone in frozen.zones() {
            history.clear(&zone);
        }
        assert_eq!((history.hash(), history.total_bytes, history.order.len()), (0, 0, 0));
    }
}
