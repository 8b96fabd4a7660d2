//! The state as items of a checkpoint, from frozen versions: updates continue while it is written.
//!
//! An item larger than a checkpoint allows is split into parts; the first byte tells whether more follow.

use super::{Machine, Stages};
use crate::checkpoint::limits::ITEM_BYTES_MAX;
use crate::checkpoint::{CheckpointItems, Section};
use crate::state::{FrozenHistory, FrozenSessions, Settings};
use std::collections::VecDeque;
use wire::name::{Name, NameRef};
use zone::codec::Encoder;
use zone::set::Frozen;
use zone::{RecordList, SetVersion, Zone, ZoneId};

pub(super) const SCALARS: Section = Section(1);
pub(super) const SETTINGS: Section = Section(2);
pub(super) const SESSIONS: Section = Section(3);
pub(super) const HISTORY: Section = Section(4);
pub(super) const STAGES: Section = Section(5);
pub(super) const ZONES: Section = Section(6);

pub(super) const ZONE_SERVED: u8 = 1;
pub(super) const ZONE_STAGED: u8 = 2;
pub(super) const ZONE_RECORDS: u8 = 3;

/// First byte of an item: nothing follows, or the next part of the same.
pub(super) const PART_LAST: u8 = 0;
pub(super) const PART_MORE: u8 = 1;

/// Bytes of records after which an item ends with the records of the current owner.
const RECORDS_BYTES: usize = 16 << 10;

/// The frozen state at one index.
pub(crate) struct FrozenState {
    zones: Frozen,
    settings: Settings,
    sessions: FrozenSessions,
    history: FrozenHistory,
    stages: Stages,
    time_ms: u64,
    state_hash: u128,
    ready: VecDeque<(Section, Vec<u8>)>,
    at: At,
}

/// The position of the next item.
enum At {
    Start,
    Sessions,
    History { zones: VecDeque<ZoneId> },
    Zones { staged: bool, zones: VecDeque<ZoneId> },
    Records { staged: bool, zones: VecDeque<ZoneId>, after: Option<Name> },
    End,
}

impl Machine {
    /// Freezes the published state. The caller ensures that it is the applied state, as it is between batches.
    pub(crate) fn freeze(&mut self) -> FrozenState {
        self.publish();
        FrozenState {
            zones: self.zones.freeze(),
            settings: self.settings.clone(),
            sessions: self.sessions.freeze(self.settings.feature_level() >= 2),
            history: self.history.freeze(),
            stages: self.stages.clone(),
            time_ms: self.time_ms,
            state_hash: self.state_hash(),
            ready: VecDeque::new(),
            at: At::Start,
        }
    }
}

impl CheckpointItems for FrozenState {
    fn next_item(&mut self, bytes: &mut Vec<u8>) -> Option<Section> {
        while self.ready.is_empty() {
            if matches!(self.at, At::End) {
                return None;
            }
            self.advance();
        }
        let (section, item) = self.ready.pop_front()?;
        bytes.extend_from_slice(&item);
        Some(section)
    }
}

impl FrozenState {
    fn push(ready: &mut VecDeque<(Section, Vec<u8>)>, section: Section, item: Encoder) {
        let item = item.finish();
        let count = item.chunks(ITEM_BYTES_MAX - 1).count();
        for (nth, part) in item.chunks(ITEM_BYTES_MAX - 1).enumerate() {
            let first = if nth + 1 == count { PART_LAST } else { PART_MORE };
            ready.push_back((section, [&[first], part].concat()));
        }
    }

    /// Produces the next items.
    fn advance(&mut self) {
        let ready = &mut self.ready;
        self.at = match core::mem::replace(&mut self.at, At::End) {
            At::Start => {
                let mut scalars = Encoder::new();
                scalars.u64(self.time_ms);
                scalars.u128(self.state_hash);
                Self::push(ready, SCALARS, scalars);
                self.settings.encode_items(|item| Self::push(ready, SETTINGS, item));
                At::Sessions
            }
            At::Sessions => {
                if self.sessions.encode_step(|item| Self::push(ready, SESSIONS, item)) {
                    At::Sessions
                } else {
                    At::History { zones: self.history.zones().into() }
                }
            }
            At::History { mut zones } => match zones.pop_front() {
                Some(zone) => {
                    self.history.encode_zone(&zone, |item| Self::push(ready, HISTORY, item));
                    At::History { zones }
                }
                None => {
                    self.stages.encode_items(|item| Self::push(ready, STAGES, item));
                    At::Zones { staged: false, zones: self.zones.set().zones().map(|zone| zone.id()).collect() }
                }
            },
            At::Zones { staged, mut zones } => match zones.pop_front() {
                Some(zone) => {
                    let mut header = Encoder::new();
                    header.u8(if staged { ZONE_STAGED } else { ZONE_SERVED });
                    header.zone_id(&zone);
                    Self::push(ready, ZONES, header);
                    zones.push_front(zone);
                    At::Records { staged, zones, after: None }
                }
                None if staged => At::End,
                None => {
                    let zones = self.zones.set().all_staged().map(|zone| zone.id()).collect();
                    At::Zones { staged: true, zones }
                }
            },
            At::Records { staged, mut zones, after } => {
                let zone = zones.front().and_then(|id| Self::find(self.zones.set(), staged, id));
                let (records, last) =
                    zone.map_or((RecordList::new(), None), |zone| some_records(&zone, after.as_ref()));
                if records.is_empty() {
                    zones.pop_front();
                    At::Zones { staged, zones }
                } else {
                    let mut item = Encoder::new();
                    item.u8(ZONE_RECORDS);
                    item.record_list(&records);
                    Self::push(ready, ZONES, item);
                    At::Records { staged, zones, after: last }
                }
            }
            At::End => At::End,
        };
    }

    fn find<'a>(set: SetVersion<'a>, staged: bool, id: &ZoneId) -> Option<Zone<'a>> {
        if staged { set.staged(id) } else { set.zone(id) }
    }
}

/// The records of whole owners after the given one, and the last of these owners.
fn some_records(zone: &Zone<'_>, after: Option<&Name>) -> (RecordList, Option<Name>) {
    let mut records = RecordList::new();
    let mut last: Option<NameRef<'_>> = None;
    let first = after.map_or_else(|| zone.apex(), Name::as_ref);
    for record in zone.records_from(first) {
        if after.is_some_and(|after| record.owner == after.as_ref()) {
            continue;
        }
        if last.is_some_and(|last| last != record.owner) && records.as_bytes().len() >= RECORDS_BYTES {
            break;
        }
        records.push(record);
        last = Some(record.owner);
    }
    (records, last.map(|last| last.to_name()))
}
