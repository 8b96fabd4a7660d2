//! The rotation: the members that answer for zones of `ack = all-live`, and these zones.

use super::Settings;
use crate::entry::SettingsChange;
use crate::io::{AckOption, NodeId, ZoneOptions};
use crate::state::{Item, item_hash};
use std::collections::BTreeMap;
use zone::ZoneId;
use zone::codec::{DecodeError, Decoder, Encoder};

impl Settings {
    /// Members that updates of such zones wait for, each with the index of the entry that added it.
    pub(crate) const fn rotation(&self) -> &BTreeMap<NodeId, u64> {
        &self.rotation
    }

    /// Whether any zone has the option.
    pub(crate) fn has_all_live(&self) -> bool {
        !self.all_live.is_empty()
    }

    /// Whether updates of a zone are acknowledged only when all members show them: the zone has the option, and every
    /// member knows that.
    pub(crate) fn is_all_live(&self, zone: &ZoneId) -> bool {
        self.all_live.get(zone).is_some_and(|&index| index <= self.all_live_known)
    }

    /// The index at which a member knows all such zones, unless all members are known to know them.
    pub(crate) fn all_live_unknown(&self) -> Option<u64> {
        self.all_live.values().copied().max().filter(|&index| index > self.all_live_known)
    }

    /// Applies a change of the rotation.
    pub(super) fn apply_rotation(&mut self, change: &SettingsChange, index: u64) {
        match change {
            SettingsChange::RotationIn { ids } => {
                for &id in ids {
                    if self.is_member(id) && !self.rotation.contains_key(&id) {
                        self.put_in_rotation(id, index);
                    }
                }
            }
            SettingsChange::RotationOut { ids } => ids.iter().for_each(|&id| self.take_out_of_rotation(id)),
            SettingsChange::AllLiveKnown { index } => self.put_all_live_known(*index),
            _ => {}
        }
    }

    /// Writes the rotation as items of a checkpoint.
    pub(super) fn encode_rotation(&self, each: &mut impl FnMut(u8, &dyn Fn(&mut Encoder))) {
        for (&id, &since) in &self.rotation {
            each(17, &|out| {
                out.u64(id);
                out.u64(since);
            });
        }
        for (zone, &index) in &self.all_live {
            each(18, &|out| {
                out.zone_id(zone);
                out.u64(index);
            });
        }
        if self.all_live_known > 0 {
            each(19, &|out| out.u64(self.all_live_known));
        }
    }

    /// Restores such an item.
    pub(super) fn restore_rotation(&mut self, kind: u8, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match kind {
            17 => {
                let (id, since) = (from.u64()?, from.u64()?);
                self.put_in_rotation(id, since);
            }
            18 => {
                let (zone, index) = (from.zone_id()?, from.u64()?);
                self.put_all_live(&zone, index);
            }
            _ => {
                let index = from.u64()?;
                self.put_all_live_known(index);
            }
        }
        Ok(())
    }

    pub(super) fn set_options(&mut self, zone: &ZoneId, options: ZoneOptions, index: u64) {
        if self.zones.contains_key(zone) {
            self.put_zone(zone, options);
            self.set_ack(zone, options.ack, index);
        }
    }

    pub(super) fn set_ack(&mut self, zone: &ZoneId, ack: AckOption, index: u64) {
        match ack {
            AckOption::AllLive if self.all_live.contains_key(zone) => {}
            AckOption::AllLive => self.put_all_live(zone, index),
            AckOption::Majority => {
                if let Some(index) = self.all_live.remove(zone) {
                    self.sub(all_live_hash(zone, index));
                }
            }
        }
    }

    fn put_all_live(&mut self, zone: &ZoneId, index: u64) {
        self.add(all_live_hash(zone, index));
        if let Some(old) = self.all_live.insert(zone.clone(), index) {
            self.sub(all_live_hash(zone, old));
        }
    }

    pub(crate) const fn all_live_known(&self) -> u64 {
        self.all_live_known
    }

    fn put_all_live_known(&mut self, index: u64) {
        if index > self.all_live_known {
            self.sub(known_hash(self.all_live_known));
            self.add(known_hash(index));
            self.all_live_known = index;
        }
    }

    fn put_in_rotation(&mut self, id: NodeId, since: u64) {
        self.add(rotation_hash(id, since));
        if let Some(old) = self.rotation.insert(id, since) {
            self.sub(rotation_hash(id, old));
        }
    }

    pub(super) fn take_out_of_rotation(&mut self, id: NodeId) {
        if let Some(since) = self.rotation.remove(&id) {
            self.sub(rotation_hash(id, since));
        }
    }
}

fn rotation_hash(id: NodeId, since: u64) -> u128 {
    item_hash(Item::Rotation, &[&id.to_be_bytes(), &since.to_be_bytes()])
}

fn all_live_hash(zone: &ZoneId, index: u64) -> u128 {
    item_hash(Item::AllLive, &[&zone.view.to_be_bytes(), zone.apex.as_bytes(), &index.to_be_bytes()])
}

/// Zero stands for a state without such zones and does not affect the hash.
fn known_hash(index: u64) -> u128 {
    if index == 0 { 0 } else { item_hash(Item::AllLiveKnown, &[&index.to_be_bytes()]) }
}
