//! Zones with their options, and the last serials of removed zones.

use super::{Retired, Settings};
use crate::entry::encode_options;
use crate::io::{AckOption, Right, ZoneOptions};
use crate::limits::{RETIRED_ZONES_MAX, ZONES_MAX};
use crate::state::{Item, item_hash};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::name::Name;
use wire::number::Serial;
use zone::ZoneId;
use zone::codec::Encoder;

impl Settings {
    pub(crate) const fn zones(&self) -> &BTreeMap<ZoneId, ZoneOptions> {
        &self.zones
    }

    pub(crate) fn has_room_for_zone(&self) -> bool {
        self.zones.len() < ZONES_MAX
    }

    pub(crate) fn retired_serial(&self, zone: &ZoneId) -> Option<Serial> {
        self.retired.get(zone).map(|retired| retired.serial)
    }

    /// Adds a zone, by the entry with this index. The zone set holds its contents.
    pub(crate) fn add_zone(&mut self, zone: &ZoneId, options: ZoneOptions, index: u64) {
        self.put_zone(zone, options);
        self.set_ack(zone, options.ack, index);
        self.forget_retired(zone);
        self.raise_epoch();
    }

    /// Remembers the last serial of a zone that is removed by the entry with this index.
    pub(crate) fn retire(&mut self, zone: &ZoneId, serial: Serial, index: u64) {
        if planted!(RetiredSerialsForgotten) {
            return;
        }
        self.put_retired(zone, Retired { serial, index });
        while self.retired.len() > RETIRED_ZONES_MAX {
            let Some((_, oldest)) = self.retired_order.first_key_value() else { break };
            self.forget_retired(&oldest.clone());
        }
    }

    /// Changes the serials of removed zones, from which they would continue.
    pub(crate) fn step_retired(&mut self, step: impl Fn(Serial) -> Serial) {
        for (zone, Retired { serial, index }) in self.retired.clone() {
            self.put_retired(&zone, Retired { serial: step(serial), index });
        }
    }

    pub(super) fn put_zone(&mut self, zone: &ZoneId, options: ZoneOptions) {
        self.add(zone_hash(zone, options));
        if let Some(old) = self.zones.insert(zone.clone(), options) {
            self.sub(zone_hash(zone, old));
        }
    }

    pub(super) fn remove_zone(&mut self, zone: &ZoneId) {
        let Some(options) = self.zones.remove(zone) else { return };
        self.set_ack(zone, AckOption::Majority, 0);
        self.sub(zone_hash(zone, options));
        let of_zone = |grant: &&(Name, Option<ZoneId>, Right)| grant.1.as_ref() == Some(zone);
        for grant in self.grants.iter().filter(of_zone).cloned().collect::<Vec<_>>() {
            self.remove_grant(&grant);
        }
        self.put_policy(Some(zone.clone()), Arc::default());
    }

    pub(super) fn put_retired(&mut self, zone: &ZoneId, retired: Retired) {
        self.forget_retired(zone);
        self.add(retired_hash(zone, retired));
        self.retired.insert(zone.clone(), retired);
        self.retired_order.insert(retired.index, zone.clone());
    }

    pub(super) fn forget_retired(&mut self, zone: &ZoneId) {
        if let Some(retired) = self.retired.remove(zone) {
            self.retired_order.remove(&retired.index);
            self.sub(retired_hash(zone, retired));
        }
    }
}

fn zone_hash(zone: &ZoneId, options: ZoneOptions) -> u128 {
    let mut out = Encoder::new();
    encode_options(options, &mut out);
    item_hash(Item::Zone, &[&zone.view.to_be_bytes(), zone.apex.as_bytes(), &out.finish()])
}

fn retired_hash(zone: &ZoneId, retired: Retired) -> u128 {
    let numbers = (retired.serial.0.to_be_bytes(), retired.index.to_be_bytes());
    item_hash(Item::Retired, &[&zone.view.to_be_bytes(), zone.apex.as_bytes(), &numbers.0, &numbers.1])
}
